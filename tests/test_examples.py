"""The example notebooks run from top to bottom, as Jupyter runs them."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(ROOT / "examples" / "register.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # none is kept: it would change with every run
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    bars = [data for data in shown if "application/vnd.jupyter.widget-view+json" in data]
    assert len(bars) == 1 and bars[0]["text/plain"].startswith("register:")
    (result,) = [data for data in shown if "text/html" in data]
    assert result["text/plain"].startswith("Registered: 200 source points")
    assert "data:image/png;base64," in result["text/html"]
    told = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    before, after = (float(told.split(f"{word} ")[1].split()[0].rstrip(",")) for word in ("before", "after"))
    assert after < 0.25 * before
