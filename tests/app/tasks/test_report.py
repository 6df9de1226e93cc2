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
from hydra import compose, initialize_config_dir
from PIL import Image

from pwan.app import main
from pwan.app.config import check
from pwan.app.overview import overview_section
from pwan.app.results import (
    benchmark_command,
    cells_in_words,
    current_rows,
    experiment_folders,
    hardest_cell,
    homes_of,
    results_of,
    rows_of,
    with_settings_columns,
    with_swept_options,
)
from pwan.app.single_trials import KEPT, WORST, worst_trials, write_worst
from pwan.app.tables import beside_paper, over_shapes, won_by_first
from pwan.app.tasks import report
from pwan.bench.cell import Cell
from pwan.bench.last_run import ORDER, OUTCOMES, begin_run
from pwan.bench.rows import read_packed, read_rows
from pwan.report.page import Link
from pwan.report.published import table_for
from pwan.report.registered import SOURCE
from pwan.synthesis import SynthesisSettings

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
    assert KEPT not in text
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
    rows = results.frame.sort_values("mse").drop_duplicates("settings", keep="last")  # the worst of each
    keys = list(zip(rows["settings"], rows["trial"], strict=True))
    views = {key: Link("view", "worst.html", f"s{i}") for i, key in enumerate(keys)}
    bunny = results.frame.assign(experiment="noise_bunny", shape="bunny")
    papers = bunny[bunny["outlier_ratio"] == 0.2].assign(shape_source="paper")
    both = replace(results, frame=pd.concat([bunny, papers]))
    (section,) = overview_section([both], tmp_path, views)
    assert section.pictures_first
    assert [picture.path.name for picture in section.pictures] == ["accuracy_noise.png", "accuracy_noise_packaged.png"]
    assert "the paper's own points" in section.pictures[0].caption and "N = 40" in section.pictures[0].caption
    (line,) = section.tables[1].frame.to_dict("records")
    ours = bunny[(bunny["method"] == "cpd") & (bunny["outlier_ratio"] == 0.6)]
    key = ours["settings"].iloc[0], ours.set_index("trial")["mse"].idxmax()
    assert line["outlier_ratio 0.6"] == Link(f"{ours['mse'].max():.3g}", "worst.html", views[key].place)
    twice = replace(results, frame=pd.concat([bunny, bunny]))  # two runs of one trial make no curve
    assert overview_section([twice], tmp_path, views) == []


def test_the_largest_error_leads_to_no_other_trial(made, tmp_path):
    """Of two seeds the first has the largest error; the view of another trial is none of it."""
    frame = results_of(made / "sweep", made).frame.assign(experiment="noise_bunny", shape="bunny")
    large = frame.assign(mse=frame["mse"] + frame["trial"] + 1, settings=frame["settings"] + "large")
    both = pd.concat([large, frame.assign(seed=1)], ignore_index=True)
    results = replace(results_of(made / "sweep", made), frame=both)
    ours = both[(both["method"] == "cpd") & (both["outlier_ratio"] == 0.6)]
    worst, *others = ours.sort_values("mse", ascending=False)[["settings", "trial"]].itertuples(index=False, name=None)
    for known in ([worst, *others], others):
        views = {key: Link("view", "worst.html", f"s{i}") for i, key in enumerate(known)}
        ((line,),) = (s.tables[0].frame.to_dict("records") for s in overview_section([results], tmp_path, views))
        text = f"{ours['mse'].max():.3g}"
        assert line["outlier_ratio 0.6"] == (Link(text, "worst.html", "s0") if worst in views else text)


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


@pytest.mark.parametrize(
    ("names", "source", "word"),
    [
        (["torus", "monkey"], "packaged", "shape=torus,monkey"),
        (["bunny"], "paper", "shape=bunny"),
        (["faces_1_2", "faces_2_1"], "paper", "shape.name=faces_1_2,faces_2_1"),
        (["humans_18_19"], "paper", "shape.name=humans_18_19"),
        (["head_smile"], "packaged", "shape.name=head_smile"),
        (["torus", "head_smile"], "packaged", "shape.name=torus,head_smile"),
    ],
)
def test_command_names_shapes_that_have_no_file_of_their_own(names, source, word):
    cells = [Cell("faces", name, source, SynthesisSettings(points=100), 0) for name in names]
    rows = [{"experiment": "faces", **cell.axes(), "method": "cpd", "trial": 0} for cell in cells]
    arguments = shlex.split(benchmark_command(pd.DataFrame(rows)))[2:]
    assert word in arguments
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        for name, cell in zip(names, cells, strict=True):
            one = [f"{a.partition('=')[0]}={name}" if a == word else a for a in arguments if a != "-m"]
            assert check(compose("config", one)).cell == cell


def test_command_of_cells_that_are_no_grid(root):
    frame = pd.DataFrame(rows_of(root / "sweep"))
    frame.loc[frame["outlier_ratio"] == 0.2, "points"] = 50
    lines = benchmark_command(frame).splitlines()
    assert len(lines) == 2 and all(" -m " not in line for line in lines)
    assert "problem.points=50" in lines[0] and "problem.points=40" in lines[1]


@pytest.mark.usefixtures("no_worst")
@pytest.mark.parametrize("recorded", [True, False])
def test_rows_of_earlier_settings_are_in_the_table_but_not_in_the_figure(root, recorded):
    folder = next((root / "sweep").glob("*0.2*"))
    lines = (folder / "rows.jsonl").read_text().splitlines()
    newer = [json.dumps({**json.loads(line), "settings": "another", "mse": 77.0}) for line in lines if '"cpd"' in line]
    (folder / "rows.jsonl").write_text("\n".join([*lines, *newer, ""]))
    if recorded:
        begin_run(folder, ["another"])
    else:  # a folder of before
        (folder / ORDER).unlink()
        (folder / OUTCOMES).unlink()
    rows = rows_of(root / "sweep")
    current = current_rows(rows, homes_of(root / "sweep"))
    assert len(rows) == 10 and len(current) == 8
    assert {row["mse"] for row in current if row["method"] == "cpd" and row["outlier_ratio"] == 0.2} == {77.0}
    text = text_of(page_of(root))
    assert "another" in text and "Accuracy: sweep" in text


def test_the_settings_that_were_run_last_count_though_they_added_no_rows(tmp_path):
    cell = ["name=t", "shape=torus", "problem.points=30", "problem.rank=20", "method=[cpd]", "trials=1", "workers=0"]
    cell += ["logger=none", "options.pictures=[]", f"output={tmp_path}/t"]
    for more in ([], ["method.cpd.beta=1"], []):
        assert main([*cell, *more], conf=CONF) == 0
    rows = rows_of(tmp_path / "t")
    assert [json.loads(row["options"]).get("beta") for row in rows] == [None, 1]
    assert current_rows(rows, homes_of(tmp_path / "t")) == rows[:1]
    (tmp_path / "t" / ORDER).unlink()  # a folder of before knows what its last run came to
    assert current_rows(rows, homes_of(tmp_path / "t")) == rows[:1]
    (tmp_path / "t" / OUTCOMES).unlink()
    assert current_rows(rows, homes_of(tmp_path / "t")) == rows[1:]


def test_without_points_the_page_says_why_there_is_no_view(root):
    for points in (root / "sweep").glob("*/points"):
        shutil.rmtree(points)
    markup = page_of(root)
    assert "no registered points were kept" in markup and "plotly.js v" not in markup


def test_where_points_of_some_trials_alone_were_kept_it_is_said(root):
    results = results_of(root / "sweep", root)
    worst = [trial.row for _, trial in worst_trials(results)]
    for row in worst:
        results.files[row["method"], row["settings"], row["trial"]].unlink()
    few = results_of(root / "sweep", root)
    found = worst_trials(few)
    words = f", of the 1 of its 2 trials {KEPT}"
    assert [(trial.row["trial"], trial.picked_from) for _, trial in found] == [
        (1 - row["trial"], words) for row in worst
    ]
    assert set(write_worst([(few, found)], root / "figures")) == {(row["settings"], 1 - row["trial"]) for row in worst}
    assert f"the worst of cpd in this cell{words}: 40 points" in text_of((root / "figures" / WORST).read_text())
    (picture,) = report._worst_picture(few, found, root / "figures")
    assert picture.caption.startswith(f"The worst trial of cpd in each cell, of those {KEPT}, and the best")
    (scene,), _ = report._scene(hardest_cell(few), few.files)
    assert f"the median one of cpd in the hardest cell{words}: 40 points" in scene.caption


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


def swept_frame(frame):
    """The rows, and of CPD those of a second setting, whose errors are larger by their own."""
    cpd = frame[frame["method"] == "cpd"].assign(options='{"beta": 1}')
    other = cpd.assign(options='{"beta": 3}', settings=cpd["settings"] + "3", mse=10 + cpd["mse"])
    return pd.concat([cpd, other, frame[frame["method"] != "cpd"]], ignore_index=True)


def test_each_of_several_settings_of_a_method_is_a_cell_and_a_line_of_its_own(made):
    results = results_of(made / "sweep", made)
    swept = replace(results, frame=swept_frame(results.frame))
    cells = dict(cells_in_words(swept.frame))
    assert list(cells) == [f"outlier_ratio {r}, method.beta {b}" for r in (0.2, 0.6) for b in (1, 3)]
    for words, cell in cells.items():
        assert cell.groupby("method").size().to_dict() == {"cpd": 2, "soft_assignment": 2}, words
        assert set(cell.loc[cell["method"] == "cpd", "mse"] > 10) == {words.endswith("3")}
    assert len(won_by_first(results.frame)[1]) == 2 and won_by_first(swept.frame)[1] == {}
    hardest = hardest_cell(replace(swept, files={}))
    assert (hardest.loc[hardest["method"] == "cpd", "mse"] > 10).all() and len(hardest) == 4
    published = table_for(swept.frame)
    (table,) = beside_paper(swept.frame, published)
    lines = table.frame[table.frame["outlier_ratio"] == 0.6].set_index("method.beta")["our_median_MSE"]
    cpd = results.frame[(results.frame["method"] == "cpd") & (results.frame["outlier_ratio"] == 0.6)]
    assert lines.loc[1] == pytest.approx(cpd["mse"].median())
    assert lines.loc[3] == pytest.approx(10 + cpd["mse"].median())
    assert ("Trials", "2 for each method and cell; 8 rows in all, 0 failed") in report._made(swept.rows, swept.frame)


def test_settings_that_no_number_tells_apart_are_told_by_their_words(made):
    frame = swept_frame(results_of(made / "sweep", made).frame)
    words = frame.replace({"options": {'{"beta": 1}': '{"kernel": "a"}', '{"beta": 3}': '{"kernel": "b"}'}})
    assert with_settings_columns(words)[1] == ["options"]
    assert with_settings_columns(frame.replace({"options": {'{"beta": 1}': '{"beta": 3}'}}))[1] == [
        "options",
        "settings",
    ]
    assert with_settings_columns(frame[frame["method"] != "cpd"])[1] == []
    over = frame.assign(shape=frame["outlier_ratio"].map({0.2: "torus", 0.6: "monkey"}), outlier_ratio=0.2)
    (table,) = over_shapes(over)
    assert table.frame["method"].tolist() == ["cpd", "cpd", "soft_assignment"]
    assert table.frame["pairs"].tolist() == [2, 2, 2] and table.frame["mse_mean"][1] > 10 > table.frame["mse_mean"][0]


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


def test_two_experiments_that_would_lie_in_one_folder_are_refused_before_anything_is_written(root, tmp_path):
    other = shutil.copytree(root / "sweep", root / "paper_points" / "sweep")
    named = rf"both {other} and {root / 'sweep'} .*options.folder="
    with pytest.raises(ValueError, match=named):
        page_of(root, collect=str(tmp_path / "kept"))
    assert not (tmp_path / "kept").exists() and not (root / "report.html").exists()


@pytest.mark.usefixtures("no_worst")
def test_nothing_of_an_earlier_experiment_stays_in_a_collected_folder(root, tmp_path):
    target = tmp_path / "kept" / "fish_precision"
    target.mkdir(parents=True)
    (root / "deeper" / EVIL).rename(root / "deeper" / "fish_precision")
    (root / "deeper" / "fish_precision" / "precision.png").unlink()
    for name in ("README.md", "paired.csv", "worst.png", "figure.png", "rows.jsonl.gz", "results.csv"):
        (target / name).write_text("of before")
    page_of(root, collect=str(tmp_path / "kept"))
    assert sorted(path.name for path in target.iterdir()) == ["README.md", "paper.csv", "results.csv"]
    assert (target / "results.csv").read_text() != "of before"
