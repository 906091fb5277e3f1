"""The page of a report in a headless Chromium: every control is used, on reports of many kinds and with hostile names, and nothing may
appear on the console, ask the network, stand over something else, or be wider than the window."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "../support"))
import browser  # noqa: E402
import hyp  # noqa: E402
import report_models  # noqa: E402

# What is true of every page. Gives a list of what is wrong.
LOOK = """(() => {
  const wrong = [], all = selector => [...document.querySelectorAll(selector)];
  if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} wide in ${innerWidth}`);
  for (const e of all('main p, main h1, main h2, main h3, main summary, .tile, header *')) {
    const r = e.getBoundingClientRect();
    if (r.width && !e.closest('.pane, .chart, .wide, nav, .skip') && (r.left < -1 || r.right > innerWidth + 1) && !e.classList.contains('skip'))
      wrong.push('outside of the window: ' + e.className + e.textContent.slice(0, 50));
  }
  for (const b of all('button, a, input, [role=button]'))
    if (!(b.getAttribute('aria-label') || b.textContent.trim() || b.labels?.length)) wrong.push('no name: ' + b.outerHTML.slice(0, 80));
  const ids = all('[id]').map(e => e.id);
  if (new Set(ids).size !== ids.length) wrong.push('an id is there twice');
  for (const a of all('nav a')) if (!document.querySelector(a.getAttribute('href'))) wrong.push('a link to nowhere: ' + a.href);
  for (const s of all('svg[role=img]')) if (!s.getAttribute('aria-label')) wrong.push('a picture without words');
  if (all('h1').length !== 1 || !all('main').length || !document.title) wrong.push('no heading, main or title');
  if (main.textContent.match(/undefined|(?<!for )NaN|\\[object/)) wrong.push('a value that is none: ' + main.textContent.match(/.{0,30}(undefined|(?<!for )NaN|\\[object).{0,30}/s)[0]);
  for (const pane of Object.values(panes)) {
    const boxes = pane.shapes.map(s => s.querySelector('rect:last-of-type').getBoundingClientRect());
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b, j) => {
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
        wrong.push('two boxes overlap: ' + pane.shapes[i].textContent + ' ' + pane.shapes[i + 1 + j].textContent);
    }));
    pane.shapes.forEach((s, i) => s.querySelectorAll('text').forEach(t => {
      if (t.getBoundingClientRect().width > boxes[i].width) wrong.push('a text is wider than its box: ' + t.textContent);
    }));
  }
  for (const svg of all('.chart svg')) {
    const texts = [...svg.querySelectorAll('text')].filter(t => t.getBoundingClientRect().width), edge = svg.getBoundingClientRect();
    texts.forEach((a, i) => {
      const p = a.getBoundingClientRect();
      if (p.left < edge.left - 1 || p.right > edge.right + 1) wrong.push('cut in a chart: ' + a.textContent);
      texts.slice(i + 1).forEach(b => {
        const q = b.getBoundingClientRect();
        if (p.left < q.right - 2 && q.left < p.right - 2 && p.top < q.bottom - 4 && q.top < p.bottom - 4) wrong.push(`texts overlap: ${a.textContent} | ${b.textContent}`);
      });
    });
  }
  return wrong.slice(0, 8);
})()"""

# Uses everything that can be used; gives what came of it.
USE = """(async () => {
  const all = selector => [...document.querySelectorAll(selector)], done = {nodes: 0, lit: 0, opened: 0, links: 0};
  const click = e => e.dispatchEvent(new MouseEvent('click', {bubbles: true}));
  for (let round = 0; round < 4; round++) for (const b of all('button.more')) { click(b); done.opened++; }
  for (const pane of Object.values(panes)) {
    for (const b of pane.element.querySelectorAll('.bar button')) click(b);
    for (const [k, run] of pane.side.runs.entries()) {
      run.open = 0;
      pane.redraw();
      const before = pane.graph.units.length;
      click(pane.shapes[pane.graph.unitOf[run.start]]);
      if (run.open !== 1 || pane.graph.units.length !== before + run.period - (run.count === 1)) throw new Error('a run did not open');
      click(pane.shapes[pane.graph.unitOf[run.start + run.period]]);
      const opened = pane.graph.units.length;
      if (run.open < 1 || opened <= before) throw new Error('a run did not open on');
    }
    pane.foldAll(Infinity);
    for (let i = 0; i < Math.min(pane.side.items.length, 150); i++) {
      click(pane.shapes[pane.graph.unitOf[i]]);
      done.nodes++;
      if (document.querySelectorAll('.unit.chosen').length !== 1) throw new Error('what was chosen is not marked');
      const it = pane.side.items[i], other = Object.values(panes).find(p => p !== pane);
      if (!document.getElementById('details').textContent.includes(shown(it.type, 200).slice(0, 10))) throw new Error('no details of ' + it.name);
      const partners = other ? other.side.items.filter(o => o.sources.some(s => it.sources.includes(s))).length : 0;
      if (partners && !other.element.querySelectorAll('.unit.lit').length) throw new Error('no partner is lit of ' + it.name);
      done.lit += partners > 0;
      const link = document.querySelector('#details button.link');
      if (link && done.links < 12) {
        click(link);
        done.links++;
      }
    }
    pane.foldAll(0);
  }
  for (const d of all('details')) { d.open = true; await new Promise(r => setTimeout(r)); }
  for (const d of all('details.step')) if (!d.querySelector('.body').hasChildNodes()) throw new Error('a step is empty');
  for (const b of all('button.more')) click(b);
  openStep(plan.steps.length - 1);
  const input = document.getElementById('search-graph');
  for (const text of ['a', 'matmul', 'x', '(', '\\\\', '']) {
    input.value = text;
    input.dispatchEvent(new Event('input', {bubbles: true}));
    for (const shift of [false, true]) input.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', shiftKey: shift, bubbles: true}));
    for (const b of all('.find button')) click(b);
    const found = Object.values(panes).flatMap(p => p.side.items).filter(it => text && textOf(it).includes(text)).length;
    if (text && !document.querySelector('.count').textContent.includes(String(found))) throw new Error('found ' + document.querySelector('.count').textContent + ' of ' + found);
  }
  for (const pane of Object.values(panes))
    for (const key of ['+', '-', '=', '0', 'x']) pane.box.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
  for (const pane of Object.values(panes)) {
    pane.box.dispatchEvent(new WheelEvent('wheel', {deltaY: 10, ctrlKey: true, bubbles: true, cancelable: true}));
    pane.box.dispatchEvent(new PointerEvent('pointerdown', {button: 0, pointerType: 'mouse', bubbles: true}));
    window.dispatchEvent(new PointerEvent('pointermove', {clientX: 5, clientY: 5}));
    window.dispatchEvent(new PointerEvent('pointerup', {}));
  }
  for (const a of all('nav a')) a.click();
  return done;
})()"""

THEME = """(() => {
  const shown = [], button = document.getElementById('theme');
  for (let i = 0; i < 3; i++) { button.click(); shown.push(button.textContent + ' ' + getComputedStyle(document.body).backgroundColor); }
  return shown;
})()"""


def run(*command):
    done = hyp.tool(*command)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}{done.stdout}"


def quiet(page, name):
    assert not page.complaints, f"{name}: {page.complaints[:3]}"


def look(page, name):
    found = page.run(LOOK)
    assert not found, f"{name}: {found}"


def use_keyboard(page):
    """The skip link comes first, a node is chosen by Enter, and another part of the page is reached by Tab alone."""
    page.press("Tab", 9)
    assert page.run("document.activeElement.className") == "skip"
    page.run("panes.after.shapes[1].focus()")
    page.press("Enter", 13, "\r")
    assert page.run("panes.after.chosen") == 1
    for _ in range(3):
        page.press("Tab", 9)
    assert page.run("document.activeElement !== document.body && document.activeElement !== panes.after.shapes[1]")
    page.run("document.getElementById('search-graph').focus()")
    page.press("a", 65, "a")
    page.press("Enter", 13, "\r")
    assert page.run("document.querySelector('.count').textContent").startswith("1 of ")


def check(page, name, path):
    for theme in ("light", "dark"):
        for width in (1280, 400):
            page.open(path, width, 900, theme)
            quiet(page, name)
            look(page, f"{name}, {width} wide, {theme}")
    done = page.run(USE)
    quiet(page, f"{name}, used")
    look(page, f"{name}, used")
    themes = page.run(THEME)  # the system's is dark
    assert themes == ["Theme: light rgb(255, 255, 255)", "Theme: dark rgb(15, 20, 26)", "Theme: as the system rgb(15, 20, 26)"], themes
    return done


def check_hostile(page):
    """Names are text: nothing of them ran, and no character of them hides."""
    assert page.run("document.querySelectorAll('img, main script, iframe').length") == 0
    assert page.run("record.graph.nodes.some(n => n.sources.some(s => s.includes('</script>')))")
    assert not page.run("/[\\u0000-\\u0009\\u000b-\\u001f\\u200b\\u202e]/.test(main.textContent)")
    assert page.run("main.textContent.includes('\\\\x202egnp.exe')")


def main():
    program = browser.find()
    if not program:
        print("skipped: there is no Chromium here (Debian: apt-get install chromium; or CHROMIUM=/path/to/it)")
        sys.exit(77)
    with report_models.folder() as folder, browser.Browser(program) as page:
        pages = {}
        for name, model in report_models.all_of_them(folder).items():
            plan, pages[name] = os.path.join(folder, name + ".bin"), os.path.join(folder, name + ".html")
            run("hypatiac", model, "-o", plan, "--report", pages[name], "-q")
        digits, bare = os.path.join(folder, "digits.bin"), os.path.join(folder, "bare.bin")
        run("hypatiac", report_models.all_of_them(folder)["digits"], "-o", bare, "--no-record", "--verify", "off", "-q")
        for name, plan, more in (("measured", digits, ["--measure", "--seconds", "0.05"]), ("of the plan", digits, []), ("bare", bare, [])):
            pages[name] = os.path.join(folder, name.replace(" ", "-") + "-page.html")
            run("hypatia", "report", plan, "-o", pages[name], *more)
        for name, path in pages.items():
            done = check(page, name, path)
            print(f"{name}: {os.path.getsize(path)} bytes, {done}")
            if name == "hostile":
                check_hostile(page)
            if name == "layers":
                assert done["lit"] >= 20 and done["opened"], done
                assert page.run("sides.before.runs.length === 1 && sides.before.runs[0].count === 8 && sides.before.runs[0].period === 4")
            if name == "digits":
                page.open(path)
                use_keyboard(page)
                quiet(page, "the keyboard")
            if name == "measured":
                assert "Measured here" in page.run("document.getElementById('summary').textContent")
                assert page.run("document.querySelectorAll('#time rect.series1').length") >= 3


main()
