from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pwan.app import main
from pwan.app.config import cell_folder

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"


@pytest.mark.parametrize(
    ("argument", "named", "nearest"),
    [
        ("trails=3", "trails", "trials"),
        ("+trails=3", "trails", "trials"),
        ("problem.outler_ratio=1", "outler_ratio", "outlier_ratio"),
        ("+problem.outler_ratio=1", "outler_ratio", "outlier_ratio"),
        ("method.pwan.stepz=3", "stepz", "steps"),
        ("shape.nam=bunny", "nam", "name"),
        ("logger.mod=online", "mod", "mode"),
        ("trainer.nam=loop", "nam", "name"),
        ("+trainer.nam=loop", "nam", "name"),
        ("+shape.nam=bunny", "nam", "name"),
        ("experiment=noise_buny", "noise_buny", "noise_bunny"),
        ("method=[pwam]", "pwam", "pwan"),
        ("method.pwam.steps=3", "pwam", "pwan"),
        ("shape=buny", "buny", "bunny"),
        ("shape.name=buny", "buny", "bunny"),
        ("task=benhmark", "benhmark", "benchmark"),
        ("task=regster source=a.ply reference=b.ply", "regster", "register"),
        ("experiment=fish_precision shape.source=packaged options.upddates=3", "upddates", "updates"),
    ],
)
def test_a_misspelt_key_or_choice_is_named_with_the_nearest_right_one(tmp_path, capsys, argument, named, nearest):
    assert main([f"output={tmp_path / 'out'}", *argument.split()], conf=CONF) == 2
    told = capsys.readouterr().err
    assert named in told
    assert f"did you mean '{nearest}'?" in told
    assert "Traceback" not in told
    assert len(told.splitlines()) <= 4
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("trials=0", "trials must be at least 1"),
        ("workers=-1", "workers must be"),
        ("seed=null", "seed"),
        ("seed=1.5", "1.5"),
        ("problem.points=many", "points must be a whole number"),
        ("problem.keep=0.3", "keep must be above 0.5"),
        ("method=[]", "the list of methods is empty"),
        ("method.wgan.steps=1", "'wgan' is not in the list of methods ['pwan']"),
        ("shape.source=web", "unknown source 'web'"),
        ("name=[", "quote"),
    ],
)
def test_a_wrong_value_is_told_in_a_few_lines(tmp_path, capsys, argument, words):
    assert main([f"output={tmp_path / 'out'}", argument], conf=CONF) == 2
    told = capsys.readouterr().err
    assert words in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("experiment/x.yaml", "# @package _global_\nname: x\ntrails: 3\n", "trials"),
        ("experiment/x.yaml", "name: x\n", "experiment"),  # without its package line
        ("problem/noise.yaml", "outler_ratio: 1\n", "outlier_ratio"),
        ("method/pwan.yaml", "pwan:\n  contract_mse: 1\n  stepz: 1\n", "steps"),
        ("shape/bunny.yaml", "nam: bunny\n", "name"),
    ],
)
def test_a_misspelt_key_in_a_file_is_an_error(tmp_path, capsys, file, content, words):
    conf = tmp_path / "conf"
    for source in CONF.rglob("*.yaml"):
        copy = conf / source.relative_to(CONF)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(source.read_text())
    (conf / file).write_text(content)
    arguments = [f"output={tmp_path / 'out'}"] + (["experiment=x"] if "experiment" in file else [])
    assert main(arguments, conf=conf) == 2
    told = capsys.readouterr().err
    assert words in told
    assert "Traceback" not in told


def test_nothing_to_run_says_what_to_do(capsys):
    assert main([], conf=CONF) == 2
    told = capsys.readouterr()
    assert "run.py experiment=noise_bunny" in told.err
    assert "partial_armadillo" in told.out


def test_help_lists_commands_and_experiments(capsys):
    assert main(["--help"], conf=CONF) == 0
    told = capsys.readouterr().out
    assert "python run.py -m experiment=noise_bunny" in told
    for path in (CONF / "experiment").glob("*.yaml"):
        assert path.stem in told


def test_a_sweep_has_a_folder_for_each_cell_and_one_summary(tmp_path, capsys):
    arguments = ["-m", "experiment=noise_bunny", "method=[pwan]", "logger=none", "trials=1", f"output={tmp_path}"]
    arguments += ["workers=1", "options.pictures=[trials]"]
    arguments += ["problem.points=30", "problem.outlier_ratio=0.2,0.4", "method.pwan.steps=1", "method.pwan.warmup=1"]
    assert main(arguments, conf=CONF) == 0
    cells = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert len(cells) == 2
    assert "outlier_ratio=0.2" in cells[0]
    assert "outlier_ratio=0.4" in cells[1]
    assert (tmp_path / "summary.csv").read_text().count("\n") == 3
    capsys.readouterr()
    arguments += ["logger.mode=online", "trainer=loop", "trainer.name=lightning", "workers=0", "retry_failed=true"]
    assert main(arguments, conf=CONF) == 0
    assert capsys.readouterr().out.count("0 trials run, 1 were there already") == 2
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == cells


def test_the_paper_grid_is_named_in_the_experiment():
    noise = yaml.safe_load((CONF / "experiment" / "noise_bunny.yaml").read_text())["hydra"]["sweeper"]["params"]
    partial = yaml.safe_load((CONF / "experiment" / "partial_bunny.yaml").read_text())["hydra"]["sweeper"]["params"]
    assert noise == {"problem.outlier_ratio": "0.2,0.4,0.6,0.8,1.0,1.2"}
    assert partial == {"problem.keep": "0.7,0.75,0.8,0.85,0.9,0.95,1.0"}


@pytest.mark.parametrize(
    ("overrides", "folder"),
    [
        (["problem.keep=0.7"], "keep=0.7"),
        (["problem.keep=0.7", "++method.pwan.steps=3"], "pwan.steps=3_keep=0.7"),
        (["method.cpd.rank=50"], "cpd.rank=50"),
        (["method.pwan.rank=50", "problem.rank=50"], "pwan.rank=50_rank=50"),
        (["trainer_x=1", "shape=bunny"], "shape=bunny_trainer_x=1"),
        (["experiment=noise_bunny", "method=[pwan,wgan]", "trials=2", "workers=1", "output=x", "name=y"], "cell"),
        (["retry_failed=true", "task=benchmark", "trainer=lightning", "logger=none"], "cell"),
        (["options.known=experiments/noise_bunny/rows.jsonl.gz", "problem.keep=0.7"], "keep=0.7"),
        (["seed=1", "logger.mode=online", "++logger.project=x", "trainer.name=lightning"], "seed=1"),
        ([], "cell"),
    ],
)
def test_folders_of_cells_are_named_by_what_varies(overrides, folder):
    assert cell_folder(overrides) == folder


@pytest.mark.parametrize(
    ("method", "options", "kept"),
    [
        ("cpd", '{"rank": 50, "w": 0.1}', True),
        ("cpd", "", True),  # written before the settings were noted
        ("cpd", '{"rank": 60}', False),
        ("cpd", "{}", False),  # of problem.rank=50
        ("pwan", '{"rank": 50}', False),
    ],
)
def test_a_cells_folder_of_the_name_of_before_goes_on(tmp_path, method, options, kept):
    (tmp_path / "rank=50_seed=1").mkdir()
    row = {"settings": "a", "trial": 0, "method": method, "options": options}
    (tmp_path / "rank=50_seed=1" / "rows.jsonl").write_text(f'{json.dumps(row)}\nnull\n{{"settings": "a", "tri')
    name = cell_folder(["method.cpd.rank=50", "seed=1"], str(tmp_path))
    assert name == ("rank=50_seed=1" if kept else "cpd.rank=50_seed=1")
    assert cell_folder(["problem.rank=50", "seed=1"], str(tmp_path)) == "rank=50_seed=1"
    assert cell_folder(["method.cpd.rank=50", "seed=2"], str(tmp_path)) == "cpd.rank=50_seed=2"


def test_a_sweep_finds_its_cells_by_the_names_of_before(tmp_path, capsys):
    sweep = ["-m", "name=test", "method=[soft_assignment]", "method.soft_assignment.steps=2,3", "trials=1"]
    sweep += ["problem.points=30", "problem.rank=20", "workers=0", "logger=none", f"output={tmp_path}"]
    assert main(sweep, conf=CONF) == 0
    named = {path.name: path for path in tmp_path.iterdir() if path.is_dir()}
    assert len(named) == 2 and all(name.startswith("soft_assignment.steps=") for name in named)
    before = {path.rename(tmp_path / name.removeprefix("soft_assignment.")).name for name, path in named.items()}
    capsys.readouterr()
    assert main(sweep, conf=CONF) == 0
    assert "nothing to do: all 2 cells were finished already" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == before


def test_folders_with_odd_characters_stay_apart():
    names = [cell_folder([override]) for override in ("shape.name=a/b", "shape.name=a:b", "problem.x=" + 300 * "1")]
    assert len(set(names)) == 3
    assert all("/" not in name and ":" not in name and len(name) < 120 for name in names)


def test_run_py_works_from_any_folder(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "run.py"), "experiment=noise_buny"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "did you mean 'noise_bunny'?" in done.stderr
    assert list(tmp_path.iterdir()) == []
