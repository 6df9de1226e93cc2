from __future__ import annotations

import html
import io
import json
import re
import shlex
import shutil
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from pwan.app import main
from pwan.app.overview import overview_section
from pwan.app.results import (
    benchmark_command,
    current_rows,
    experiment_folders,
    homes_of,
    results_of,
    rows_of,
    with_swept_options,
)
from pwan.app.tables import over_shapes
from pwan.app.tasks import report
from pwan.bench.rows import read_packed, read_rows
from pwan.report.page import Link
from pwan.report.registered import SOURCE

CONF = Path(__file__).parents[3] / "conf"
EVIL = "<b>evil</b> & co"
RUN = [
    "-m",
    "name=sweep",
    "shape=torus",
    "problem.points=40",
    "problem.rank=20",
    "problem.outlier_ratio=0.2,0.6",
    "method=[cpd,soft_assignment]",
    "method.soft_assignment.steps=3",
    "trials=2",
    "workers=0",
    "logger=none",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of results: a small sweep, and what a task that registers nothing writes, under a bad name."""
    root = tmp_path_factory.mktemp("report") / "outputs"
    assert main([*RUN, f"output={root}/sweep"], conf=CONF) == 0
    other = root / "deeper" / EVIL
    other.mkdir(parents=True)
    pd.DataFrame({"quantity": [EVIL, "W1"], "exact": [0.25, 1 / 3]}).to_csv(other / "summary.csv", index=False)
    config = {"name": "fish_precision", "task": "precision", "shape": {"name": "fish", "source": "paper"}, "seed": 0}
    (other / "config.yaml").write_text(yaml.safe_dump(config))
    picture = np.random.default_rng(0).integers(0, 255, (30, 40, 3), dtype=np.uint8)
    Image.fromarray(picture).save(other / "precision.png")
    (root / "empty").mkdir()
    return root


@pytest.fixture
def root(made, tmp_path):
    """A copy of the results, to write in."""
    return Path(shutil.copytree(made, tmp_path / "outputs", ignore=shutil.ignore_patterns("report*")))


@pytest.fixture
def no_worst(monkeypatch):
    """Reports without the worst trials, whose pictures and views take most of the time."""
    monkeypatch.setattr(report, "worst_trials", lambda results: [])


@pytest.fixture(scope="module")
def page(made):
    """The text of the page of these results; written into them."""
    return page_of(made)


def page_of(root, **settings):
    return report.make_report(root, report.Settings(**settings)).read_text()


def text_of(markup):
    return html.unescape(re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", markup, flags=re.S))


def test_the_command_works_from_the_folder_where_the_user_stands(root, monkeypatch, capsys):
    monkeypatch.chdir(root.parent)
    assert main(["task=report"], conf=CONF) == 0
    assert "page:" in capsys.readouterr().out
    assert sorted(path.name for path in root.iterdir()) == ["deeper", "empty", "report.html", "report_figures", "sweep"]
    figures = sorted(path.name for path in (root / "report_figures").iterdir())
    pictures = [f"sweep_{kind}.{suffix}" for kind in ("accuracy", "worst") for suffix in ("pdf", "png")]
    assert figures == [*pictures, "worst_trials.html"]
    first = (root / "report.html").read_bytes()
    assert main(["task=report", "options.folder=outputs"], conf=CONF) == 0
    assert (root / "report.html").read_bytes() == first  # and does not report on itself


def test_topmost_folders_are_the_experiments(root):
    assert list(experiment_folders(root)) == [root / "deeper" / EVIL, root / "sweep"]
    assert list(experiment_folders(root / "sweep")) == [root / "sweep"]
    (root / "sweep" / "summary.csv").unlink()  # which a sweep gets at its end: an unfinished one stays one experiment
    assert list(experiment_folders(root / "sweep")) == [root / "sweep"]


def test_page_of_a_benchmark(made, page):
    text = text_of(page)
    assert "Summary: 8 trials" in text
    assert "2 for each method and cell; 8 rows in all, 0 failed" in text
    row = read_rows(made / "sweep")[0]
    assert row["versions"] in text and row["host"] in text
    assert "Beside the paper" in text
    for published in ("0.0015", "0.083"):  # CPD at ratios of 0.2 and 0.6
        assert published in text
    assert "Accuracy: sweep (shape torus, points 40)" in text
    assert text.count("Worst, median and best trial:") == 2  # of the hardest cell
    assert "2 pictures of trials in other cells are not on this page" in text
    assert "outlier_ratio: 0.6" in text  # config.yaml
    for line in pd.read_csv(made / "sweep" / "summary.csv").to_dict("records"):
        assert f">{line['mse_median']:.3g}<" in page and f">{line['seconds_median']:.3g}<" in page


@pytest.mark.usefixtures("no_worst")
def test_pictures_of_all_cells_if_wanted(root):
    assert text_of(page_of(root, pictures="all")).count("Worst, median and best trial:") == 4


def test_page_of_another_task(page):
    assert html.escape(EVIL) in page and "<b>evil" not in page
    text = text_of(page)
    assert "0.3333" in text and "precision.png" in text and "python run.py experiment=fish_precision" in text


def test_scene_shows_the_median_trial_of_the_hardest_cell(made, page):
    (scene,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, flags=re.S)
    labels = [button["label"] for button in json.loads(scene)["layout"]["updatemenus"][0]["buttons"]]
    (trial,) = re.findall(r"Trial (\d+), the median one of cpd", page)
    frame = pd.DataFrame(rows_of(made / "sweep"))
    medians = frame.groupby(["outlier_ratio", "method"])["mse"].median().groupby("outlier_ratio").median()
    hardest = frame[frame["outlier_ratio"] == medians.idxmax()].set_index(["method", "trial"])["mse"]
    assert int(trial) == hardest["cpd"].idxmin()  # the lower one of two
    methods = ("cpd", "soft_assignment")
    assert labels == ["initial sets", *(f"{method}: MSE {hardest[method, int(trial)]:.3g}" for method in methods)]


def test_each_worst_trial_is_one_click_away(made, page):
    text, summary = text_of(page), pd.read_csv(made / "sweep" / "summary.csv").set_index(["outlier_ratio", "method"])
    assert page.index("Accuracy: sweep") < page.index("Summary: 8 trials")  # the figure before the digits
    pictures = [unquote(link) for link in re.findall(r'href="(sweep/[^"]*)"', page)]
    assert len(pictures) == 4 and all((made / link).read_bytes().startswith(b"\x89PNG") for link in pictures)
    assert re.findall(r'href="(report_figures[^"]*)">view<', page) == [
        f"report_figures/worst_trials.html#s{i}" for i in range(2)
    ]
    views = text_of((made / "report_figures" / "worst_trials.html").read_text())
    frame = pd.DataFrame(rows_of(made / "sweep"))
    for ratio in (0.2, 0.6):
        ours = frame[(frame["outlier_ratio"] == ratio) & (frame["method"] == "cpd")]
        trial = ours.set_index("trial")["mse"].idxmax()
        assert re.search(rf"sweep: outlier_ratio {ratio}\s+Trial {trial}, the worst of cpd in this cell", views)
        assert f">{summary.loc[(ratio, 'cpd'), 'mse_max']:.3g}</a>" in page
    won = pd.read_csv(made / "sweep" / "paired.csv").query("error == 'mse'").to_dict("records")
    assert "won by cpd (95% interval)" in text and len(won) == 2
    for line in won:
        assert f"{line['won']:.0%} ({line['won_low']:.0%} to {line['won_high']:.0%})" in text


def test_the_papers_figures_come_first_where_their_experiments_are_there(made, tmp_path):
    results = results_of(made / "sweep", made)
    assert overview_section([results], tmp_path, {}) == []
    views = {key: Link("view", "worst.html", f"s{i}") for i, key in enumerate(results.frame["settings"].unique())}
    bunny = results.frame.assign(experiment="noise_bunny", shape="bunny")
    papers = bunny[bunny["outlier_ratio"] == 0.2].assign(shape_source="paper")
    both = replace(results, frame=pd.concat([bunny, papers]))
    (section,) = overview_section([both], tmp_path, views)
    assert section.pictures_first
    assert [picture.path.name for picture in section.pictures] == ["accuracy_noise.png", "accuracy_noise_packaged.png"]
    assert "the paper's own points" in section.pictures[0].caption and "N = 40" in section.pictures[0].caption
    (line,) = section.tables[1].frame.to_dict("records")
    ours = bunny[(bunny["method"] == "cpd") & (bunny["outlier_ratio"] == 0.6)]
    key = ours["settings"].iloc[0]
    assert line["outlier_ratio 0.6"] == Link(f"{ours['mse'].max():.3g}", "worst.html", views[key].place)
    twice = replace(results, frame=pd.concat([bunny, bunny]))  # two runs of one trial make no curve
    assert overview_section([twice], tmp_path, views) == []


def test_a_figure_says_where_its_points_are_the_papers_own(made, tmp_path):
    frame = results_of(made / "sweep", made).frame
    for source, words in (("packaged", ""), ("paper", ", the paper's own points")):
        ((title, _),) = report.curves_of(frame.assign(shape_source=source), tmp_path, "sweep", None, "quartiles")
        assert title == f"sweep (shape torus, points 40{words})"


def test_rows_of_another_task_are_no_benchmark(root):
    row = {"settings": "x", "trial": 0, "method": "cpd", "status": "stopped", "points": 1000}
    (root / "deeper" / EVIL / "rows.jsonl").write_text(json.dumps(row) + "\n")
    assert rows_of(root / "deeper") == []
    assert "python run.py experiment=fish_precision" in text_of(page_of(root / "deeper"))


def test_command_makes_the_very_rows(root, tmp_path):
    rows = rows_of(root / "sweep")
    command = benchmark_command(pd.DataFrame(rows))
    program, *arguments = shlex.split(command.removeprefix("python "))
    assert program == "run.py"
    # of the method whose settings were not overridden, the command finds every row finished
    arguments = [a for a in arguments if not a.startswith("method=")]
    more = ["method=[cpd]", f"output={root}/sweep2", "workers=0", "logger=none"]
    assert main([*arguments, *more], conf=CONF) == 0
    expected = {(row["settings"], row["trial"]) for row in rows if row["method"] == "cpd"}
    assert {(row["settings"], row["trial"]) for row in read_rows(root / "sweep2")} == expected


def test_command_of_cells_that_are_no_grid(root):
    frame = pd.DataFrame(rows_of(root / "sweep"))
    frame.loc[frame["outlier_ratio"] == 0.2, "points"] = 50
    lines = benchmark_command(frame).splitlines()
    assert len(lines) == 2 and all(" -m " not in line for line in lines)
    assert "problem.points=50" in lines[0] and "problem.points=40" in lines[1]


@pytest.mark.usefixtures("no_worst")
def test_rows_of_earlier_settings_are_in_the_table_but_not_in_the_figure(root):
    folder = next((root / "sweep").glob("*0.2*"))
    lines = (folder / "rows.jsonl").read_text().splitlines()
    newer = [json.dumps({**json.loads(line), "settings": "another", "mse": 77.0}) for line in lines if '"cpd"' in line]
    (folder / "rows.jsonl").write_text("\n".join([*lines, *newer, ""]))
    rows = rows_of(root / "sweep")
    current = current_rows(rows, homes_of(root / "sweep"))
    assert len(rows) == 10 and len(current) == 8
    assert {row["mse"] for row in current if row["method"] == "cpd" and row["outlier_ratio"] == 0.2} == {77.0}
    text = text_of(page_of(root))
    assert "another" in text and "Accuracy: sweep" in text


def test_without_points_the_page_says_why_there_is_no_view(root):
    for points in (root / "sweep").glob("*/points"):
        shutil.rmtree(points)
    markup = page_of(root)
    assert "no registered points were kept" in markup and "plotly.js v" not in markup


def test_a_problem_that_cannot_be_made_again_is_told(root):
    for path in (root / "sweep").glob("*/rows.jsonl"):
        path.write_text(path.read_text().replace('"mse_initial": 0.', '"mse_initial": 1.'))
    assert "another version of the problems" in page_of(root)


def test_damaged_or_missing_results_are_told_in_a_sentence(root, capsys):
    with pytest.raises(ValueError, match="no folder .*missing; run one first"):
        page_of(root / "missing")
    with pytest.raises(ValueError, match="nothing to report in .*empty"):
        page_of(root / "empty")
    assert main(["task=report", f"options.folder={root}/empty", f"output={root}/x"], conf=CONF) == 2
    assert "nothing to report" in capsys.readouterr().err
    (root / "deeper" / EVIL / "summary.csv").write_text("")
    with pytest.raises(ValueError, match="summary.csv is not a table"):
        page_of(root)


def test_wrong_settings():
    with pytest.raises(ValueError, match="options.band must be one of quartiles, std, got 'both'"):
        report.Settings(band="both")
    with pytest.raises(ValueError, match="options.pictures must be one of hardest, all"):
        report.Settings(pictures="some")


def browser():
    """A headless Chromium, or a reason why there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not (program and driver):
        pytest.skip("Chromium and its driver are not installed (Debian packages chromium and chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    software = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]  # 3-D without a graphics card
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,900", *software]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


def count_of_colour(png, colour):
    image = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return int((np.abs(image - wanted).max(-1) < 12).sum())


def test_page_in_a_real_browser(made, page):
    window = browser()
    try:
        window.get((made / "report.html").as_uri())
        (scene,) = window.find_elements("css selector", ".scene")
        window.execute_script("arguments[0].scrollIntoView({block: 'center'})", scene)
        end = time.monotonic() + 30
        while count_of_colour(scene.screenshot_as_png, SOURCE) < 20 and time.monotonic() < end:
            time.sleep(0.2)
        assert count_of_colour(scene.screenshot_as_png, SOURCE) >= 20  # the registered points are there
        window.execute_script("document.querySelectorAll('details').forEach(one => one.open = true)")
        sizes = window.execute_script(
            "return Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))"
        )
        assert len(sizes) == 5 and min(sizes) >= 40  # accuracy, precision, the worst trials, two of trials
        outside = (
            "return performance.getEntriesByType('resource').map(e => e.name).filter(n => !/^(data|blob):/.test(n))"
        )
        assert window.execute_script(outside) == []
        assert "Share" not in window.execute_script("return document.querySelector('.modebar').innerHTML")
        assert [entry for entry in window.get_log("browser") if entry["level"] == "SEVERE"] == []
    finally:
        window.quit()


@pytest.mark.usefixtures("no_worst")
def test_a_swept_setting_of_a_method_is_an_axis(tmp_path):
    sweep = ["-m", "name=u", "shape=torus", "problem.points=30", "problem.rank=20", "method=[soft_assignment,cpd]"]
    small = ["++method.soft_assignment.steps=2,3", "trials=2", "workers=0", "logger=none"]
    assert main([*sweep, *small, "options.pictures=[]", f"output={tmp_path}/u"], conf=CONF) == 0
    frame, swept = with_swept_options(pd.DataFrame(read_rows(tmp_path / "u")))
    assert swept == ["method.steps"]
    assert sorted(frame["method.steps"].dropna().unique()) == [2, 3]
    assert frame.loc[frame["method"] == "cpd", "method.steps"].isna().all()
    text = text_of(page_of(tmp_path))
    assert "Accuracy: u (shape torus, points 30)" in text and "steps=3" in text
    assert (tmp_path / "report_figures" / "u_accuracy.pdf").exists()


@pytest.mark.usefixtures("no_worst")
def test_examples_of_several_cells_are_one_picture_and_shapes_are_pooled(tmp_path):
    for shape in ("torus", "monkey"):
        sets = [f"shape={shape}", "name=two", "problem.points=30", "problem.rank=20", "method=[cpd,soft_assignment]"]
        small = ["method.soft_assignment.steps=2", "trials=1", "workers=0", "logger=none", "options.pictures=[example]"]
        assert main([*sets, *small, f"output={tmp_path}/two/{shape}"], conf=CONF) == 0
    (tmp_path / "two" / "summary.csv").write_text("method\n")  # as a sweep leaves one: the folder is one experiment
    page = page_of(tmp_path)
    assert "Trial 0 of each cell" in text_of(page)
    assert (tmp_path / "report_figures" / "two_examples.pdf").exists()
    assert "Accuracy in each cell: two" in text_of(page)  # no number orders a torus and a monkey
    assert (tmp_path / "report_figures" / "two_cells.pdf").exists()
    rows = pd.DataFrame(read_rows(tmp_path / "two"))
    (pooled,) = over_shapes(rows)
    for line in pooled.frame.to_dict("records"):
        mine = rows[rows["method"] == line["method"]]
        assert (line["pairs"], line["failed"]) == (2, 0)
        assert line["mse_mean"] == pytest.approx(mine["mse"].mean())
        assert line["normalised_mean"] == pytest.approx((mine["mse"] / mine["truth_radius"] ** 2).mean())
        assert line["mse_deviation"] == pytest.approx(mine["mse"].std(ddof=1))
    assert over_shapes(rows[rows["shape"] == "torus"]) == []
    (faces,) = over_shapes(rows.replace({"torus": "faces_1_2", "monkey": "faces_2_1", "cpd": "cpd_scalability"}))
    assert faces.frame["published_mean"].tolist()[0] == 0.00049


def test_results_are_collected_for_the_project(root, tmp_path):
    target = tmp_path / "kept"
    (target / "sweep").mkdir(parents=True)
    (target / "sweep" / "README.md").write_text("mine")
    (root / "deeper" / EVIL).rename(root / "deeper" / "fish_precision")
    page_of(root, collect=str(target))
    kept = ["README.md", "figure.png", "paired.csv", "results.csv", "rows.jsonl.gz", "worst.png"]
    assert sorted(path.name for path in (target / "sweep").iterdir()) == kept
    assert set(pd.read_csv(target / "sweep" / "paired.csv")["other"]) == {"soft_assignment"}
    assert (target / "sweep" / "README.md").read_text() == "mine"
    results = pd.read_csv(target / "sweep" / "results.csv")
    assert len(results) == 4
    rows = pd.DataFrame(read_packed(target / "sweep" / "rows.jsonl.gz"))  # from which all of these can be made again
    assert rows.groupby("settings").size().to_dict() == results.set_index("settings")["trials"].to_dict()
    fish = target / "fish_precision"
    assert pd.read_csv(fish / "paper.csv").set_index("discrepancy").loc["L_M,50", "true"] == 0.4191
    assert (fish / "results.csv").read_text() == (root / "deeper" / "fish_precision" / "summary.csv").read_text()
    assert (fish / "figure.png").read_bytes() == (root / "deeper" / "fish_precision" / "precision.png").read_bytes()
