"""The report for people: its line on top, its links, what it says of loops, refusals and waits.

Covers: reports/page.py, reports/loop_section.py, reports/markup.py, reports/pictures.py, pipeliner/expand/expand_pass.py, session/report.py, tool/__main__.py
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

import mlir_async_pipe
from helpers.driver_process import opt
from helpers.hopper_gemms import HopperGemm
from helpers.page_blocks import blocks_of
from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.reports import pictures
from mlir_async_pipe.reports.limits import name_roles
from mlir_async_pipe.reports.page import fragment, page, record_tables
from mlir_async_pipe.session.report import Report, Session

EXAMPLES = ROOT / "examples"
VOID = {"meta", "br", "img", "input", "hr", "link"}


class Reader(HTMLParser):
    """Checks that elements are closed in order, and gathers anchors, links and what is loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert [tag for tag in self.open if tag not in ("html", "li", "p")] == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if "href" in given else []
        self.loads += [given["src"]] if "src" in given else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)


def report_of(name: str, **options: Any) -> Report:
    with new_context():
        module = ir.Module.parseFile(str(EXAMPLES / name))
        return mlir_async_pipe.pipeline(module, target="nvvm:sm_80", **options)


@pytest.fixture(scope="module")
def gemm() -> Report:
    return report_of("gemm.mlir")


@pytest.fixture(scope="module")
def add_one() -> Report:
    return report_of("add_one.mlir")


def test_the_first_line_says_what_became_of_it(add_one: Report) -> None:
    assert (
        "1 loop pipelined in 3 stages · 6 KiB for versions of buffers · largest count 1 · "
        "proven: 12 accesses in 1 kernel"
    ) in Reader(page([add_one])).text


def test_without_a_check_the_first_line_does_not_say_proven() -> None:
    text = Reader(fragment(report_of("add_one.mlir", check="none"))).text
    assert "not checked" in text
    assert "proven" not in text.partition("Loop 1")[0]


def test_every_link_leads_to_one_anchor_of_the_page_and_nothing_is_loaded(gemm: Report) -> None:
    read = Reader(page([gemm]))
    assert [name for name, number in Counter(read.ids).items() if number > 1] == []
    assert read.links, "waits link to commits, entries to lines"
    assert {link for link in read.links if link[1:] not in read.ids} == set()
    assert read.loads == []
    assert "http" not in page([gemm]).replace("http://www.w3.org/2000/svg", "")


def test_two_reports_on_one_page_do_not_share_anchors(gemm: Report) -> None:
    read = Reader(page([gemm, report_of("add_one.mlir")]))
    assert len(read.ids) == len(set(read.ids))


def test_source_lines_stand_beside_the_parts(gemm: Report) -> None:
    text = Reader(fragment(gemm)).text
    line = (EXAMPLES / "gemm.mlir").read_text().splitlines()[43]
    assert " ".join(line.split()) in text
    parts = [text.index(word) for word in ("Prologue", "Kernel", "Epilogue")]
    assert parts == sorted(parts)
    assert "8 × nvgpu.device_async_copy line 44 to 72 commit group P1" in text


def test_a_wait_tells_its_count_its_commits_and_its_reason(add_one: Report) -> None:
    text = Reader(fragment(add_one)).text
    assert "wait 1 1 group may stay in flight; it is for P1 , P2 , K1 why 1: the loop" in text
    assert "wait 0 nothing may stay in flight; it is for P2 , K1 why 0: nothing is" in text


def test_the_source_ends_with_the_loop() -> None:
    shown = re.findall(r'<span class="n">(\d+)</span>', fragment(report_of("add_one.mlir")))
    assert (shown[0], shown[-1]) == ("12", "22")


def test_printed_it_tells_the_parts_of_each_loop_and_what_was_said(add_one: Report) -> None:
    assert str(add_one).splitlines() == [
        "1 loop pipelined in 3 stages · 6 KiB for versions of buffers · largest count 1 · "
        "proven: 12 accesses in 1 kernel",
        "  loop at line 12",
        "    prologue  2 copies, 2 commits",
        "    kernel    1 wait (1), 1 copy, 1 commit, 2 statements",
        "    epilogue  2 waits (1, 0), 4 statements",
        *str(add_one.diagnostics[0]).splitlines(),
    ]


def test_a_module_without_a_file_gets_a_page_too() -> None:
    with new_context():
        module = ir.Module.parse((EXAMPLES / "add_one.mlir").read_text())
        report = mlir_async_pipe.pipeline(module, target="nvvm:sm_80")
    read = Reader(fragment(report))
    assert "14 S0 nvgpu.device_async_copy" in read.text
    assert {link for link in read.links if link[1:] not in read.ids} == set()


def test_versions_and_barriers_are_reported_with_their_reasons(gemm: Report) -> None:
    (loop,) = gemm.of("loops")
    text = Reader(fragment(gemm)).text
    assert "Versions: 48 KiB" in text
    for buffer in loop.buffers:
        reported = f"written in stage {buffer.write_stage} ( line {buffer.write_place.line} ), used last in"
        assert reported in text
    assert loop.barriers
    for pair in loop.barriers:
        assert f"{pair.first} line {pair.first_place.line} " in text


def test_what_was_refused_is_reported_with_what_helps(tmp_path: Any) -> None:
    source = (EXAMPLES / "add_one.mlir").read_text().replace("= 3 : i64}", "= 0 : i64}")
    file = tmp_path / "in.mlir"
    file.write_text(source)
    target = tmp_path / "report.html"
    ended = opt(file, "--async-pipe", "--report=html", f"--report-file={target}")
    assert ended.code == 1
    text = Reader(target.read_text()).text
    assert "stopped by 1 error" in text
    assert "What was refused, and what helps error" in text
    message = ended.err.splitlines()[0].partition("error: ")[2].rpartition(" [")[0]
    assert message in text


def test_waits_of_hand_written_kernels_are_a_table() -> None:
    with new_context():
        module = ir.Module.parseFile(str(EXAMPLES / "handwritten" / "ring_tokens.mlir"))
        report = mlir_async_pipe.count_waits(module, target="nvvm:sm_80")
    text = Reader(fragment(report)).text
    assert "no loop was pipelined" in text
    assert "wait groups that may stay of queue why" in text
    assert "the awaited group is committed" in text


def test_hazards_are_reported_with_the_wait_that_would_do() -> None:
    source = (EXAMPLES / "handwritten" / "double_buffer_counts.mlir").read_text()
    with new_context():
        module = ir.Module.parse(source.replace("wait.group 1", "wait.group 2"))
        text = Reader(fragment(mlir_async_pipe.check(module, target="nvvm:sm_80"))).text
    assert text.index("may race") < text.index("What is wrong, and what helps")
    assert "Accesses that may race" in text
    assert "a wait that leaves 1 group" in text


def test_an_empty_report_is_a_page() -> None:
    assert "no loop was pipelined · not checked" in Reader(page([Report((), {})])).text


def test_text_of_the_input_is_escaped(tmp_path: Any) -> None:
    name = tmp_path / "<b>&.mlir"
    name.write_text((EXAMPLES / "add_one.mlir").read_text())
    with new_context():
        module = ir.Module.parseFile(str(name))
        text = fragment(mlir_async_pipe.pipeline(module, target="nvvm:sm_80"))
    assert "<b>&.mlir" not in text
    assert "&lt;b&gt;&amp;.mlir" in text


def test_notebooks_get_the_fragment(gemm: Report) -> None:
    assert gemm._repr_html_() == fragment(gemm)
    assert "<html" not in gemm._repr_html_()


def test_a_run_adds_its_time_line(tmp_path: Any) -> None:
    target = tmp_path / "report.html"
    ended = opt(
        EXAMPLES / "add_one.mlir", "--async-pipe", "--run=add_one", "--threads=128", "--arg=8192xf32",
        "--arg=zeros:8192xf32", "--report=html", f"--report-file={target}",
    )  # fmt: skip
    assert ended.code == 0
    text = Reader(target.read_text()).text
    assert "Time line of a run" in text
    assert "stalled in a wait" in text


def boxes(svg: str) -> list[tuple[str, str]]:
    """Kind and title of each box of a picture."""
    return [
        (kind, reported)
        for reported, kind in re.findall(r'<title>(.*?)</title><rect class="(\w+)"', svg)
    ]


def test_the_picture_of_stages_runs_stage_s_of_iteration_k_in_step_k_plus_s() -> None:
    found = boxes(pictures.stages(["copy", "", "compute"]))
    expected = []
    for k in range(5):
        expected += [
            ("copy", f"step {k}: stage 0 of iteration {k}"),
            ("compute", f"step {k + 2}: stage 2 of iteration {k}"),
        ]
    assert found == expected


def test_the_picture_of_versions_has_no_two_tiles_in_a_slot_at_once() -> None:
    svg = pictures.versions(3, 0, 2, 3)
    held: dict[tuple[str, int], str] = {}
    for slot, tile, first, last in re.findall(
        r"slot (\d) holds tile (\d) in steps (\d) to (\d)", svg
    ):
        for step in range(int(first), int(last) + 1):
            assert held.setdefault((slot, step), tile) == tile
    assert len(held) == 15


def test_the_picture_of_groups_counts_what_is_in_flight() -> None:
    svg = pictures.groups(3, [1, 1, 0])
    flights = re.findall(r"group (\d) is committed in step (\d), and awaited in step (\d)", svg)
    for step, left in re.findall(r"step (\d): at most (\d) younger groups", svg):
        younger = [g for g, start, end in flights if int(start) < int(step) < int(end)]
        assert len(younger) == int(left)


def hopper(roles: str) -> Report:
    with new_context():
        module = ir.Module.parse(HopperGemm().module())
        return mlir_async_pipe.pipeline(module, target="nvvm:sm_90a", roles=roles)


@pytest.fixture(scope="module")
def specialised() -> Report:
    return hopper("specialised")


def test_roles_stand_side_by_side_with_their_threads(specialised: Report) -> None:
    text = Reader(fragment(specialised)).text
    products = text.index("Role: products (threads 0-127)")
    copies = text.index("Role: copies (threads 128-159)")
    assert "8 × nvvm.wgmma.mma_async" in text[products:copies]
    assert "2 × nvgpu.tma.async.load" in text[copies:]
    assert "copies (threads 128-159) iteration k" in text
    assert "products (threads 0-127) iteration k - 2" in text
    assert "nothing" not in text[copies : text.index("Time line")]
    by_op = {entry.op: entry for outline in specialised.of("outlines") for entry in outline.entries}
    (loop,) = specialised.of("loops")
    stages = {
        place: stage
        for outline in specialised.of("outlines")
        for place, stage in outline.stages(loop.stages).items()
    }
    assert stages[by_op["nvgpu.tma.async.load"].place] == 0
    assert stages[by_op["nvvm.wgmma.mma_async"].place] == 2


def test_both_halves_of_each_mbarrier_are_linked(specialised: Report) -> None:
    html = fragment(specialised)
    read = Reader(html)
    assert {link for link in read.links if link[1:] not in read.ids} == set()
    assert [name for name, number in Counter(read.ids).items() if number > 1] == []
    rows = html.partition("<h3>Mbarriers</h3>")[2].partition("</table>")[0].split("<tr>")[2:]
    empty, full = (Reader(f"<table><tr>{row.rstrip()}</table>").text for row in rows)
    assert re.search(r"arrives: threads 0, 32, 64, 96, .* waits: threads 128-159, ", empty)
    assert re.search(
        r"announces: threads 159, .* copies: threads 159, .* waits: threads 0-127, ", full
    )
    assert "3 slots" in full and "in phases of parity 0 and 1" in full
    anchors = re.findall(r'href="(#[^"]*m\d)">mbarriers', html)
    assert len(anchors) == 6 and len(set(anchors)) == 2


def test_without_roles_the_loop_shows_phases_copies_and_products() -> None:
    text = Reader(fragment(hopper("together"))).text
    kernel = text.partition("Kernel")[2].partition("Epilogue")[0]
    for kind in ("phase wait", "S0 2 × nvgpu.tma.async.load", "S2 8 × nvvm.wgmma.mma_async"):
        assert kind in kernel
    assert "Role:" not in text
    mbarriers = text.partition("who waits")[2].partition("Versions")[0]
    assert re.search(r"one for each of 3 slots announces: .* copies: .* waits: ", mbarriers)


def bands(html: str) -> list[list[tuple[str, float]]]:
    """Name and width of the bands of each picture."""
    rect = re.compile(r'<rect class="(prologue|kernel|epilogue)" x="\d+" y="0" width="(\d+)"')
    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    return [[(name, int(width) / 46) for name, width in rect.findall(svg)] for svg in pictures]


@pytest.mark.parametrize(
    ("roles", "drawn"),
    [("together", [("prologue", 2), ("kernel", 5)]), ("specialised", [("kernel", 7)])],
)
def test_steps_that_are_not_written_apart_are_the_kernels(
    roles: str, drawn: list[tuple[str, float]]
) -> None:
    assert bands(fragment(hopper(roles))) == [drawn, drawn]


def test_the_last_products_are_waited_for_after_the_loop() -> None:
    (outline,) = hopper("together").of("outlines")
    assert outline.contents("epilogue") == "1 wait (0)"


def test_a_tile_is_written_by_its_own_copy_and_used_until_its_product_is_over() -> None:
    (loop,) = (report := hopper("together")).of("loops")
    (outline,) = report.of("outlines")
    copies = [entry.place for entry in outline.of("kernel") if entry.kind == "copy"]
    (wait,) = (entry.place for entry in outline.of("kernel") if entry.kind == "wait")
    assert [buffer.write_place for buffer in loop.buffers] == copies
    assert {buffer.last_place for buffer in loop.buffers} == {wait}


def test_a_product_that_waits_by_itself_shows_what_it_leaves() -> None:
    (text,) = (
        b.text for b in blocks_of(ROOT / "docs" / "hopper-tutorial.md") if b.language == "mlir"
    )
    with new_context():
        module = ir.Module.parse(text)
        reported = Reader(fragment(mlir_async_pipe.pipeline(module, target="nvvm:sm_90a"))).text
    assert re.search(r"nvgpu.warpgroup.mma line \d+ wait 1 1 product may stay in flight", reported)


def test_groups_in_turn_are_both_named(specialised: Report) -> None:
    """Two groups run the same loop; the checker records what each of them does."""
    session = Session()
    session.records["outlines"] = [
        replace(outline, role="", threads="") for outline in specialised.of("outlines")
    ]
    uses = specialised.of("roles")
    others = [replace(use, threads="128-255") for use in uses if use.threads == "0-127"]
    session.records["roles"] = [*uses, *others]
    name_roles(session)
    titles = [outline.title for outline in session.records["outlines"]]
    assert titles == ["products (threads 0-127 and 128-255)", "copies (threads 128-159)"]


def test_products_are_shown_and_why_there_is_a_stage_more(gemm: Report) -> None:
    text = Reader(fragment(gemm)).text
    why = "(3 asked for, 1 more for the last products, whose fragments are loaded a step ahead)"
    assert text.count(f"4 stages {why}") == 2
    assert "× nvgpu.mma.sync" in text.partition("Kernel")[2].partition("Epilogue")[0]
    (extra,) = gemm.of("extra_stages")
    assert (extra.asked, extra.place) == (3, gemm.of("loops")[0].place)


def test_records_in_a_field_are_a_table_of_their_own(gemm: Report) -> None:
    """A loop with its buffers in one cell was a line of 1,300 characters."""
    tables = {title: (header, rows) for title, header, rows in record_tables(gemm)}
    header, rows = tables["loops: buffers"]
    (loop,) = gemm.of("loops")
    assert header[0] == "of"
    assert [row[0] for row in rows] == [str(loop.place)] * len(loop.buffers)
    versions = header.index("versions")
    assert [row[versions] for row in rows] == [str(b.versions) for b in loop.buffers]
    assert "buffers" not in tables["loops"][0]
    # Waits of one loop stand in one place: the steps of each are those of a row.
    steps, waits = tables["waits: witness"][1], gemm.of("waits")
    numbers = [f"row {n}" for n, wait in enumerate(waits, start=1) for _ in wait.witness]
    assert [row[0] for row in steps] == numbers
    assert max(len(cell) for _, rows in tables.values() for row in rows for cell in row) < 200
