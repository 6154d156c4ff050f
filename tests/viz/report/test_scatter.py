"""The scatter engine in a real browser: what is drawn, hovered and selected, against the same computed by NumPy."""

import numpy as np
import pytest

from browser import Pages
from scatter_panels import ASSETS, ENGINE, Panel, decoded, encoded, page_source

RED, GREEN, BLUE = [213, 94, 0, 255], [0, 158, 115, 255], [0, 114, 178, 255]
WHITE = [255, 255, 255]
MARGIN = 0.94
PERSPECTIVE = 0.28


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("scatter") / "panels.html"
    path.write_text(page_source(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened(chromium, source):
    """One page for all tests of the module."""
    pages = Pages(chromium)
    yield pages, pages.open(source, width=900, height=700)
    pages.close()


@pytest.fixture
def page(opened):
    pages, page = opened
    page.evaluate("clean()")
    page.mouse.move(890, 690)
    yield page
    assert pages.problems == []


@pytest.fixture
def cloud():
    points = np.random.default_rng(0).normal(size=(400, 2)) * [3, 1] + [100, -7]
    points[[5, 17]] = [[np.nan, 0], [1, np.inf]]
    return points


@pytest.fixture
def ball():
    return np.random.default_rng(1).normal(size=(300, 3)) * [2, 1, 0.5] + [0, 50, 0]


def flat_places(points, size=(400, 300)):
    """The places of rows of a 2-D panel at first: bounding box in the middle, one scale for both axes."""
    rows = np.asarray(points, dtype=np.float32).astype(float)
    finite = rows[np.isfinite(rows).all(axis=1)]
    low, high = finite.min(axis=0), finite.max(axis=0)
    scale = MARGIN * min(size[0] / (high - low)[0], size[1] / max((high - low)[1], 1e-9))
    rows[~np.isfinite(rows).all(axis=1)] = np.nan
    return np.array(size) / 2 + scale * (rows - (low + high) / 2) * [1, -1]


def rightmost(points):
    """The place of a row that no other covers."""
    places = flat_places(points)
    return places[np.nanargmax(places[:, 0])]


def view(panel):
    return np.array(panel.run("p.getView().rotation")).reshape(3, 3)


def turned(points, rotation, panel):
    """Places of rows of a 3-D panel by matrices: turn, divide by the distance from the eye, scale."""
    rows = np.asarray(points, dtype=np.float32).astype(float)
    low, high = rows.min(axis=0), rows.max(axis=0)
    q = (rows - (low + high) / 2) / np.linalg.norm((high - low) / 2) @ rotation.T
    flat = q[:, :2] / (1 - PERSPECTIVE * q[:, 2:])
    return np.array(panel.size) / 2 + panel.run("p.camera.scale") * flat * [1, -1], q[:, 2]


def inside(places, corners):
    """Even-odd rule, by counting the edges to the right of each place."""
    x, y = places.T
    count = np.zeros(len(places), dtype=int)
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            count += ((ay > y) != (by > y)) & (x < ax + (y - ay) * (bx - ax) / (by - ay))
    return np.flatnonzero(count % 2)


def circle(middle, radius, corners=24):
    angles = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    return np.round(np.c_[middle[0] + radius * np.cos(angles), middle[1] + radius * np.sin(angles)])


def near(pixel, color, tolerance=3):
    return np.abs(np.asarray(pixel) - color[:3]).max() <= tolerance


@pytest.mark.parametrize("webgl", [True, False])
def test_a_row_is_drawn_in_its_color_where_the_arithmetic_says(page, webgl):
    points = np.array([[0, 0], [10, 0], [10, 5], [0, 5], [4, 2], [np.nan, 1]])
    colors = [RED, GREEN, BLUE, RED, GREEN, BLUE]
    panel = Panel(page, points, colors=colors, pointSize=12, webgl=webgl)
    places = flat_places(points)
    np.testing.assert_allclose(panel.positions()[:5], places[:5], atol=1e-6)
    for picture in (panel.picture(), panel.seen()):
        for (x, y), color in zip(places[:5], colors, strict=False):
            mixed = 0.92 * np.array(color[:3]) + 0.08 * 255
            assert near(picture[int(y), int(x)], mixed), (x, y)
            assert near(picture[int(y) + 9, int(x)], WHITE)
        assert np.mean((picture == 255).all(axis=2)) > 0.99


def test_a_unit_is_as_long_in_both_directions_in_any_shape_of_panel(page):
    points = np.array([[0, 0], [8, 0], [0, 3], [8, 3]])
    for size in ((500, 120), (120, 500)):
        places = Panel(page, points, size=size).positions()
        np.testing.assert_allclose((places[1] - places[0])[0] / 8, (places[0] - places[2])[1] / 3, rtol=1e-6)
        assert places.min() > 0
        assert (places < size).all()


@pytest.mark.parametrize("webgl", [True, False])
def test_a_brush_selects_the_rows_inside_and_shift_adds_alt_removes_escape_clears(page, cloud, webgl):
    panel = Panel(page, cloud, webgl=webgl)
    panel.run("p.setMode('brush')")
    places = flat_places(cloud)

    def boxed(low, high):
        return set(np.flatnonzero(((places > low) & (places < high)).all(axis=1)))

    first, second, third = boxed((150, 100), (250, 200)), boxed((200, 120), (300, 250)), boxed((100, 90), (220, 160))
    panel.drag([(150, 100), (180, 150), (250, 200)])
    assert set(panel.selected()) == first
    panel.drag([(300, 250), (200, 120)], keys=["Shift"])
    assert set(panel.selected()) == first | second
    panel.drag([(100, 160), (150, 100), (220, 90)], keys=["Alt"])
    assert set(panel.selected()) == (first | second) - third
    assert third & (first | second)
    page.keyboard.press("Escape")
    assert panel.selected() is None
    panel.settle()
    assert panel.run("p.rows.selection") is None


def test_a_brush_tells_its_rows_while_it_is_drawn_and_escape_takes_it_back(page, cloud):
    panel = Panel(page, cloud)
    panel.run("p.setMode('brush')")
    panel.select([3])
    page.mouse.move(100, 50)
    page.mouse.down()
    page.mouse.move(300, 250)
    panel.settle()
    told = page.evaluate("window.selected")
    assert len(told["rows"]) > 100
    assert told["final"] is False
    page.keyboard.press("Escape")
    page.mouse.up()
    assert page.evaluate("window.selected") == {"rows": [3], "final": True}


def test_shift_and_drag_brush_in_pan_mode_and_leave_the_view(page, cloud):
    panel = Panel(page, cloud)
    panel.run("p.canvas.style.border = '4px solid'")
    places = flat_places(cloud)
    panel.drag([(154, 104), (254, 204)], keys=["Shift"])
    expected = np.flatnonzero(((places > (150, 100)) & (places < (250, 200))).all(axis=1))
    assert panel.selected() == list(expected)
    np.testing.assert_allclose(panel.positions(), places, atol=1e-6)


def test_a_lasso_selects_the_rows_inside_in_two_and_three_dimensions(page, cloud, ball):
    for points in (cloud, ball):
        page.evaluate("clean()")
        panel = Panel(page, points)
        panel.run("p.setMode('lasso')")
        places = flat_places(points) if points.shape[1] == 2 else turned(points, view(panel), panel)[0]
        star = np.array([circle((200, 150), 90 if k % 2 else 45)[k] for k in range(24)])
        panel.drag(star)
        expected = inside(places, star)
        assert 20 < len(expected) < len(points) - 20
        assert panel.selected() == list(expected)


def test_the_row_below_the_pointer_is_the_nearest_one_that_is_shown(page, cloud):
    colors = np.tile(RED, (len(cloud), 1))
    colors[100:200, 3] = 0
    panel = Panel(page, cloud, colors=colors)
    places = flat_places(cloud)
    places[100:200] = np.nan
    spots = np.random.default_rng(2).uniform((50, 80), (350, 220), size=(40, 2))
    found = panel.run("a.map(([x, y]) => p.rowAt(x, y))", spots.tolist())
    for spot, row in zip(spots, found, strict=True):
        away = np.linalg.norm(places - spot, axis=1)
        assert row == (np.nanargmin(away) if np.nanmin(away) < 12 else -1)
    assert -1 in found
    page.mouse.move(*places[0] + 1)
    panel.settle()
    row, x, y = page.evaluate("window.hovered")
    np.testing.assert_allclose([x, y], places[row], atol=1e-6)
    assert np.nanargmin(np.linalg.norm(places - places[0] - 1, axis=1)) == row
    page.mouse.move(890, 690)
    assert page.evaluate("window.hovered")[0] == -1


def test_in_three_dimensions_the_row_in_front_is_hovered(page, ball):
    panel = Panel(page, ball, pointSize=16)
    panel.run("p.rotate(0.7, -0.4)")
    places, depths = turned(ball, view(panel), panel)
    for row in range(0, 300, 30):
        covering = np.flatnonzero(np.linalg.norm(places - places[row], axis=1) <= 8)
        assert panel.run("p.rowAt(...a)", places[row].tolist()) == covering[np.argmax(depths[covering])]


def test_the_ring_of_a_hovered_row_leaves_no_trace(page, cloud):
    panel = Panel(page, cloud)
    before = panel.seen()
    panel.run("p.setHighlight(a)", int(np.nanargmax(flat_places(cloud)[:, 0])))
    panel.settle()
    x, y = rightmost(cloud).astype(int)
    changed = np.argwhere((panel.seen() != before).any(axis=2))
    assert len(changed) > 20
    assert np.abs(changed - [y, x]).max() < 12
    panel.run("p.setHighlight(-1)")
    panel.settle()
    np.testing.assert_array_equal(panel.seen(), before)


def test_the_wheel_zooms_about_the_pointer_and_a_drag_pans(page, cloud):
    panel = Panel(page, cloud)
    places = flat_places(cloud)
    anchor = np.round(places[0])
    page.mouse.move(*anchor)
    page.mouse.wheel(0, -300)
    panel.settle()
    factor = panel.run("p.getView().zoom")
    assert factor > 1.2
    np.testing.assert_allclose(panel.positions(), anchor + factor * (places - anchor), atol=1e-6)
    zoomed = panel.positions()
    panel.drag([(200, 150), (230, 150), (260, 110)])
    np.testing.assert_allclose(panel.positions(), zoomed + np.array([60, -40]), atol=1e-6)
    panel.run("p.resetView()")
    np.testing.assert_allclose(panel.positions(), places, atol=1e-6)


@pytest.mark.parametrize(
    ("wheel", "taken"), [("zoom", [True, True]), ("ctrl", [False, True]), ("none", [False, False])]
)
def test_the_wheel_is_taken_as_asked_and_not_while_the_page_is_scrolled(page, cloud, wheel, taken):
    panel = Panel(page, cloud, wheel=wheel)
    turn = """((ctrlKey) => { const event = new WheelEvent("wheel", {deltaY: -50, ctrlKey, cancelable: true});
        p.canvas.dispatchEvent(event); return event.defaultPrevented; })"""
    assert [panel.run(f"{turn}(a)", ctrl) for ctrl in (False, True)] == taken
    assert (panel.run("p.getView().zoom") > 1) == any(taken)
    assert panel.run(f"window.dispatchEvent(new Event('scroll')) && {turn}(false)") is False


def test_two_fingers_move_and_zoom_what_is_between_them(page, cloud):
    panel = Panel(page, cloud)
    places = flat_places(cloud)
    touch = """a.forEach(([kind, id, x, y]) => p.canvas.dispatchEvent(new PointerEvent(kind,
        {pointerId: id, clientX: x, clientY: y, pointerType: "touch", bubbles: true})))"""
    steps = [["pointerdown", 7, 180, 150], ["pointerdown", 8, 220, 150], ["pointermove", 7, 140, 170]]
    panel.run(touch, [*steps, ["pointermove", 8, 260, 170], ["pointerup", 7, 140, 170], ["pointerup", 8, 260, 170]])
    assert panel.run("p.getView().zoom") == pytest.approx(3, rel=0.02)
    moved = panel.positions()
    fixed = np.array([200, 150]) + (np.array([200, 170]) - [200, 150])
    between = (moved - fixed) / (places - [200, 150])
    np.testing.assert_allclose(np.nanmedian(between, axis=0), 3, rtol=0.05)


def test_turning_a_view_is_the_product_of_two_rotations(page, ball):
    panel = Panel(page, ball)
    start = view(panel)
    np.testing.assert_allclose(start @ start.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(panel.positions(), turned(ball, start, panel)[0], atol=1e-6)
    panel.drag([(200, 150), (200 + 50, 150 + 25)])
    a, b = 50 * 0.008, 25 * 0.008
    about_vertical = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    about_horizontal = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    np.testing.assert_allclose(view(panel), about_horizontal @ about_vertical @ start, atol=1e-12)
    np.testing.assert_allclose(panel.positions(), turned(ball, view(panel), panel)[0], atol=1e-6)


@pytest.mark.parametrize("webgl", [True, False])
def test_in_three_dimensions_near_rows_hide_far_ones(page, webgl):
    points = np.array([[0, -1, 0], [0, 1, 0], [1, 0, 1], [-1, 0, -1]])
    panel = Panel(page, points, colors=[RED, GREEN, BLUE, BLUE], pointSize=20, webgl=webgl)
    panel.run("p.setView({zoom: 1, target: [0, 0], rotation: [1, 0, 0, 0, 0, 1, 0, -1, 0]})")
    assert near(panel.picture()[150, 200], RED, 40)
    panel.run("p.rotate(Math.PI, 0)")
    assert near(panel.picture()[150, 200], GREEN, 40)


@pytest.mark.parametrize("webgl", [True, False])
def test_selected_rows_are_drawn_on_top_and_the_others_fade(page, webgl):
    points = np.array([[0, 0], [0, 0], [5, 0], [-5, 0]])
    panel = Panel(page, points, colors=[RED, GREEN, BLUE, BLUE], pointSize=20, webgl=webgl)
    places = flat_places(points).astype(int)
    for row, color in ((0, RED), (1, GREEN)):
        panel.select([row])
        picture = panel.picture()
        assert near(picture[places[row][1], places[row][0]], color, 60)
        assert not near(picture[places[2][1], places[2][0]], WHITE, 5)
        assert near(picture[places[2][1], places[2][0]], WHITE, 60)


def test_the_class_that_comes_last_in_the_file_does_not_cover_the_others(page):
    points = np.random.default_rng(4).uniform(size=(3000, 2))
    panel = Panel(page, points, colors=np.repeat([RED, BLUE], 1500, axis=0), size=(100, 100), pointSize=6)
    picture = panel.picture()[20:80, 20:80]
    assert 0.35 < np.mean(picture[..., 0] > picture[..., 2]) < 0.65


def test_the_picture_for_print_is_white_and_twice_as_fine_in_a_dark_page(page, cloud):
    panel = Panel(page, cloud, background="#101418", ink="#eeeeee")
    assert near(panel.seen()[2, 2], [16, 20, 24])
    picture = decoded(panel.run("p.toDataURL()"))
    assert picture.shape == (600, 800, 3)
    assert near(picture[2, 2], WHITE)
    panel.run("p.setTheme({background: 'rgb(0, 40, 0)', ink: 'white'})")
    panel.settle()
    assert near(panel.seen()[2, 2], [0, 40, 0])


def test_a_lost_context_keeps_the_picture_and_draws_again_when_restored(page, cloud):
    panel = Panel(page, cloud, colors=np.tile(RED, (len(cloud), 1)), pointSize=10)
    before = panel.seen()
    page.evaluate("window.loss = ScatterGlPainter.shared().gl.getExtension('WEBGL_lose_context'); loss.loseContext()")
    panel.settle()
    panel.set_colors(np.tile(BLUE, (len(cloud), 1)))
    panel.settle()
    np.testing.assert_array_equal(panel.seen(), before)
    assert panel.run("p.toDataURL()").startswith("data:image/png")
    page.evaluate("loss.restoreContext()")
    page.wait_for_function("!ScatterGlPainter.shared().lost")
    panel.settle()
    x, y = rightmost(cloud).astype(int)
    assert near(panel.seen()[y, x], np.multiply(BLUE, 0.92) + 20, 25)


def test_a_context_that_does_not_come_back_is_done_without(pages, source, cloud):
    page = pages.open(source)
    page.evaluate("clean()")
    panel = Panel(page, cloud, colors=np.tile(RED, (len(cloud), 1)), pointSize=10)
    before = panel.seen()
    page.evaluate("ScatterGlPainter.shared().gl.getExtension('WEBGL_lose_context').loseContext()")
    page.wait_for_function("ScatterGlPainter.shared().lost")
    page.evaluate("ScatterGlPainter.shared().giveUp()")
    panel.settle()
    assert np.mean(np.abs(panel.seen() - before) > 8) < 0.01
    panel.set_colors(np.tile(BLUE, (len(cloud), 1)))
    panel.settle()
    x, y = rightmost(cloud).astype(int)
    assert near(panel.seen()[y, x], np.multiply(BLUE, 0.92) + 20, 25)
    assert Panel(page, cloud, size=(60, 30)).run("p.painter.constructor.name") == "ScatterPlainPainter"


def test_twenty_panels_share_one_context_and_all_are_drawn(page, cloud):
    made = page.evaluate("""() => { window.made = 0; const get = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
            if (kind.startsWith("webgl")) made++; return get.call(this, kind, ...rest); }; return made; }""")
    panels = [Panel(page, cloud, size=(60, 30)) for _ in range(20)]
    assert made + page.evaluate("made") == 0
    for panel in panels:
        assert np.mean((panel.seen() != 255).any(axis=2)) > 0.02
        panel.run("p.destroy()")
    assert page.evaluate("ScatterGlPainter.shared().panels.size") == 0


def test_nothing_is_drawn_unless_something_changed_and_then_once(page, cloud):
    panel = Panel(page, cloud)
    page.evaluate("""() => { const painter = ScatterGlPainter.shared(); window.drawn = 0;
        const { draw } = ScatterGlPainter.prototype;
        painter.draw = function (...given) { drawn++; return draw.apply(this, given); }; }""")
    panel.settle()
    panel.run("p.setHighlight(1)")
    panel.settle()
    assert page.evaluate("drawn") == 0
    panel.run("p.pan(1, 1) || p.zoom(1.1) || p.setSelection(new Uint8Array(400)) || p.setPointSize(3)")
    panel.settle()
    assert page.evaluate("drawn") == 1
    panel.run("p.canvas.style.marginTop = '3000px'")
    panel.settle()
    panel.run("p.pan(5, 5)")
    panel.settle()
    assert page.evaluate("drawn") == 1
    page.evaluate("window.scrollTo(0, 3000)")
    panel.settle()
    assert page.evaluate("drawn") == 2
    page.evaluate("delete ScatterGlPainter.shared().draw")


def test_without_webgl_a_sample_is_drawn_and_the_page_is_told(page):
    points = np.random.default_rng(3).uniform(size=(50_500, 2))
    panel = Panel(page, points[:50_000], webgl=False)
    panel.run("p.onNotice = (text) => (window.notice = text)")
    panel.run("p.setPoints(decode(a).length && new Float32Array(decode(a).buffer))", encoded(points.astype(np.float32)))
    panel.settle()
    expected = "This browser does not support WebGL2: a random sample of 50,000 of 50,500 points is drawn."
    assert page.evaluate("notice") == expected
    panel.run("p.select([[0, 0], [400, 0], [400, 300], [0, 300]])")
    assert len(panel.selected()) == 50_500


def test_a_million_rows_are_drawn_hovered_and_selected(page):
    page.evaluate("""() => { const points = new Float32Array(2e6); let s = 1;
        for (let i = 0; i < 2e6; i++) { s = (s * 48271) % 2147483647; points[i] = s / 2147483647; }
        window.million = points; const panel = make(400, 300, "", {points, dimension: 2}); panels.push(panel); }""")
    page.evaluate("frames()")
    shade = decoded(page.evaluate("panels[0].canvas.toDataURL()"))
    assert (shade[100:200, 150:250] < 250).any(axis=2).mean() > 0.99
    row, place, count = page.evaluate("""() => { const p = panels[0], place = p.positionOf(4321);
        p.onSelect = (mask) => (window.count = mask.reduce((a, b) => a + b, 0));
        p.select([[150, 100], [250, 100], [250, 200], [150, 200]]);
        return [p.rowAt(...place), place, count]; }""")
    assert row == 4321 or np.allclose(place, page.evaluate("(row) => panels[0].positionOf(row)", row), atol=0.05)
    side = 300 * MARGIN
    assert abs(count / 1e6 - 100 * 100 / side**2) < 0.002


@pytest.mark.parametrize("points", [np.zeros((0, 2)), np.ones((1, 2)), np.ones((5, 3)), np.full((3, 2), np.nan)])
def test_few_equal_or_missing_rows_are_no_problem(page, points):
    panel = Panel(page, points)
    panel.run("p.zoom(2) || p.pan(3, 3) || p.rotate(1, 1)")
    panel.settle()
    assert panel.run("p.rowAt(200, 150)") in range(-1, len(points))
    if len(points) and np.isfinite(points).all():
        np.testing.assert_allclose(panel.positions(), np.tile([203, 153], (len(points), 1)))


def test_arrays_of_the_wrong_length_are_refused(page, cloud):
    panel = Panel(page, cloud)
    refusal = "(() => { try { p[a](new Uint8Array(9)); } catch (error) { return error.message; } })()"
    assert panel.run(refusal, "setColors") == "colors must have 1600 entries, got 9."
    assert panel.run(refusal, "setSelection") == "mask must have 400 entries, got 9."


def test_a_phone_gets_fine_pixels_and_shows_the_row_that_is_tapped(pages, source, cloud):
    page = pages.open(source, device_scale_factor=2, has_touch=True)
    page.evaluate("clean()")
    panel = Panel(page, cloud, pointSize=8)
    assert panel.seen().shape == (600, 800, 3)
    x, y = (2 * rightmost(cloud)).astype(int)
    assert not near(panel.seen()[y, x], WHITE, 50)
    page.touchscreen.tap(x / 2, y / 2)
    panel.settle()
    assert page.evaluate("window.hovered[0]") == panel.run("p.rowAt(...a)", [x / 2, y / 2]) != -1
    panel.run("p.canvas.style.width = '200px'")
    panel.settle()
    assert panel.seen().shape == (600, 400, 3)
    np.testing.assert_allclose(panel.positions(), flat_places(cloud, (200, 300)), atol=1e-6)


@pytest.mark.parametrize("name", ENGINE)
def test_the_engine_asks_nothing_of_the_network(name):
    code = (ASSETS / f"{name}.js").read_text(encoding="utf-8")
    assert len(code.splitlines()) < 350
    for word in ("fetch(", "XMLHttpRequest", "import ", "http", "eval(", "</script"):
        assert word not in code
