"""The record that a plan keeps of its compilation, and the document that hypatia report makes of it: as the schema says, the same for
the same model, safe whatever names there are, and true where something else knows it."""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
import hyp  # noqa: E402
import report_models  # noqa: E402
import schema  # noqa: E402

with open(os.path.join(HERE, "../../tools/report/schema.json")) as file:
    SCHEMA = json.load(file)
DATA = re.compile(r'<script type="application/json" id="data">\n(.*)</script>\n<script>', re.S)


def run(*command, code=0):
    done = hyp.tool(*command)
    assert done.returncode == code, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done


def document(plan, *more):
    return json.loads(run("hypatia", "report", plan, "--json", *more).stdout)


def page_data(path):
    """The document in a page, which has to be one script element."""
    with open(path, encoding="utf-8") as page:
        text = page.read()
    (data,) = DATA.findall(text)
    assert not set("<>&") & set(data), path
    data.encode("ascii")
    assert text.count("</script>") == 2 and text.count("<script") == 2, path
    return json.loads(data)


def check_schema(data):
    found = schema.faults(SCHEMA, SCHEMA, data)
    assert not found, found[:5]


def check_links(data):
    """What refers to something refers to what is there."""
    graph, plan = data["record"]["graph"], data["plan"]
    ids = range(len(graph["values"]))
    written = set(graph["inputs"])
    for node in graph["nodes"]:
        assert all(i in ids for i in node["reads"] + node["writes"])
        assert all(i in written or "constant_bytes" in graph["values"][i] for i in node["reads"]), node
        written |= set(node["writes"])
    assert all(output["value"] in ids for output in graph["outputs"])
    sources = {source for node in graph["nodes"] for source in node["sources"]}
    for step in plan["steps"]:
        assert set(step["sources"]) <= sources, step
    for rows in ("chains", "alternatives", "misses"):
        for row in data["record"][rows]:
            assert set(row["sources"]) <= sources, row
    rules = {rule["name"] for rule in data["record"].get("rules", [])}
    for step in plan["steps"]:
        assert set(step["rules"]) - {"recompute"} <= rules, step
    for chain in data["record"]["chains"]:
        assert [("rule" in term) for term in chain["terms"]] == [False] + [True] * (len(chain["terms"]) - 1), chain
        assert {term["rule"] for term in chain["terms"][1:]} <= rules and chain["lemmas"], chain
    for alternative in data["record"]["alternatives"]:
        assert alternative["taken"] and alternative["more_seconds"] >= 0, alternative


def check_phases(data):
    for phase in data["record"]["phases"]:
        assert all(len(row) == 4 for row in phase["iterations"])
        applied = sum(row[3] for row in phase["iterations"])
        assert applied == sum(rule[2] for rule in phase["rules"]), phase
    rules = data["record"].get("rules", [])
    for rule in rules:
        assert rule["matches"] == sum(r[1] for p in data["record"]["phases"] for r in p["rules"] if r[0] == rule["name"]), rule


def check_prices(data):
    """The price of the plan is the one that forms say was chosen."""
    forms = {form["name"]: form["seconds"] for form in data["record"]["forms"]}
    plan = data["plan"]["predicted_seconds"]
    assert abs(forms["chosen"] - plan) <= 1e-5 * plan and forms["chosen"] <= forms["as it came"] * 1.00001, forms


def check_model(name, model, folder):
    plan, again, page, other = (os.path.join(folder, name + end) for end in (".bin", "-2.bin", ".html", "-2.html"))
    run("hypatiac", model, "-o", plan, "--report", page, "-q")
    run("hypatiac", model, "-o", again, "-q")
    with open(plan, "rb") as a, open(again, "rb") as b:
        assert a.read() == b.read(), f"{name}: a report changed the plan"
    data, direct = document(plan), page_data(page)
    check_schema(data)
    check_schema(direct)
    check_links(data)
    check_phases(data)
    check_prices(data)
    assert data["run"] is None and data["measured"] is None
    assert direct["run"]["phases"] and [p["name"] for p in direct["run"]["phases"]] == [p["name"] for p in data["record"]["phases"]]
    direct["run"] = None
    assert direct == data, f"{name}: the report of the plan is another than that of the compiler"
    run("hypatia", "report", plan, "-o", other)
    assert page_data(other) == data
    assert os.path.getsize(page) < 2 << 20
    return data


def check_story(folder):
    """Of a model of which it is known what becomes of it."""
    plan = os.path.join(folder, "digits.bin")
    data = document(plan)
    assert [step["label"] for step in data["plan"]["steps"]] == ["fused-mlp", "softmax"]
    step = data["plan"]["steps"][0]
    chains = [c for c in data["record"]["chains"] if set(c["sources"]) & set(step["sources"])]
    assert any(term.get("rule") == "fuse-linear-relu" for c in chains for term in c["terms"])
    ends = [c for c in chains if c["terms"][-1]["text"].startswith("(fused-mlp")]
    assert ends and all(c["terms"][0]["seconds"] > c["terms"][-1]["seconds"] for c in ends)
    assert any(a["taken"][0][0].startswith("(fused-mlp") for a in data["record"]["alternatives"])
    assert {m["rule"] for m in data["record"]["misses"]} & {"fuse-mlp-act", "linear-bias-more"}
    explained = run("hypatiac", report_models.all_of_them(folder)["digits"], "--explain", "layer1/Relu", "-q").stdout
    for term in ends[0]["terms"]:
        assert term["text"] in explained, term


def check_measured(folder, device):
    plan, page = os.path.join(folder, device + ".bin"), os.path.join(folder, "measured.html")
    run("hypatiac", report_models.all_of_them(folder)["digits"], "-o", plan, "--target", device, "--verify", "off", "-q")
    run("hypatia", "report", plan, "--measure", "--seconds", "0.05", "--device", device, "--threads", "1", "-o", page)
    data = page_data(page)
    check_schema(data)
    measured = data.pop("measured")
    assert measured["samples"] >= 5 and 0 < measured["least_seconds"] <= measured["median_seconds"], measured
    assert device == "cuda" or "cpu" in measured["device"], measured
    assert len(measured["steps"]) == len(data["plan"]["steps"]) and all(s > 0 for s in measured["steps"])
    assert dict(data, measured=None) == document(plan)


def check_left_out(folder):
    model, plan, page = report_models.all_of_them(folder)["digits"], os.path.join(folder, "bare.bin"), os.path.join(folder, "bare.html")
    run("hypatiac", model, "-o", plan, "--no-record", "-q")
    data = document(plan)
    check_schema(data)
    assert data["record"] is None
    assert os.path.getsize(plan) < os.path.getsize(os.path.join(folder, "digits.bin"))
    run("hypatia", "report", plan, "-o", page)
    assert page_data(page) == data
    for command in (["-o", plan, "--no-record", "--report", page], ["--dry-run", "--report", page], ["-o", "-", "--report", page]):
        assert "--report" in run("hypatiac", model, *command, code=2).stderr
    assert "same file" in run("hypatiac", model, "-o", plan, "--report", plan, code=2).stderr
    run("hypatia", "report", plan, "-o", plan, code=2)
    run("hypatia", "report", code=2)
    run("hypatia", "report", model, code=1)
    run("hypatia", "report", plan, "-o", os.path.join(folder, "no/such/folder.html"), code=1)


def check_room(folder):
    """A model for whose names there is no room is compiled all the same."""
    model, plan = os.path.join(folder, "names.onnx"), os.path.join(folder, "names.bin")
    for letters, kept in ((100, True), (60000, False)):
        report_models.many_outputs(model, 30, "n" * letters)
        run("hypatiac", model, "-o", plan, "-q", "--verify", "strict")
        data = document(plan)
        check_schema(data)
        assert (data["record"] is not None) == kept, letters
        page = os.path.join(folder, "names.html")
        run("hypatiac", model, "-o", plan, "-q", "--report", page)
        page_data(page)


def check_options(folder):
    """Other ways to compile have records, too."""
    model, plan = report_models.all_of_them(folder)["layers"], os.path.join(folder, "ways.bin")
    for way in (["--no-rewrite"], ["--target", "cuda:h200", "--precision", "bf16"], ["--precision", "fp16"], ["--max-iterations", "1"],
                ["--train", "mse"], ["--verify", "off"], ["--only-rules", "matmul-linear"]):
        run("hypatiac", model, "-o", plan, *way, "-q")
        data = document(plan)
        check_schema(data)
        assert data["record"]["graph"]["nodes"]
        assert ("rules" in data["record"]) == ("--no-rewrite" not in way)


def replace_record(plan, out, record):
    """Another record in a plan, with all lengths and checksums mended: what an attacker would do."""
    sealed = subprocess.run([os.path.join(hyp.BIN, "seal_record"), plan, out], input=record, capture_output=True)
    assert sealed.returncode == 0, sealed.stderr


def check_damage(folder):
    """What is no record is refused, with where and why; what only looks like one ends in no page."""
    plan, bad = os.path.join(folder, "digits.bin"), os.path.join(folder, "bad.bin")
    good = document(plan)["record"]
    replace_record(plan, bad, json.dumps(good).encode())
    assert document(bad)["record"] == good
    cases = [(b"{", "no JSON"), (b"[]", "/record"), (b"{}", "/record"), (b'{"version": 2}', "/record"), (b"[" * 100000, "no JSON"),
             (json.dumps(dict(good, more=1)).encode(), "/record"), (json.dumps(dict(good, chains={})).encode(), "/record"),
             (json.dumps(dict(good, left_out=-1)).encode(), "/record")]
    for record, says in cases:
        replace_record(plan, bad, record)
        done = run("hypatia", "report", bad, "--json", code=1)
        assert says in done.stderr, (record[:60], done.stderr)
        found = schema.faults(SCHEMA, SCHEMA, {"format": "hypatia-report 1", "plan": document(plan)["plan"], "record": json.loads(record),
                                               "run": None, "measured": None}) if says == "/record" else [says]
        assert found, record[:60]
        assert "f32" in run("hypatia", "inspect", bad).stdout  # nobody else minds
    replace_record(plan, bad, b"")
    assert document(bad)["record"] is None


def main():
    with report_models.folder() as folder:
        if "--device" in sys.argv:
            check_measured(folder, sys.argv[2])
            return
        models = report_models.all_of_them(folder)
        for name, model in models.items():
            data = check_model(name, model, folder)
            if name == "hostile":
                names = {source for node in data["record"]["graph"]["nodes"] for source in node["sources"]}
                assert {n + "/MatMul" for n in report_models.HOSTILE} <= names
        check_story(folder)
        check_measured(folder, "cpu")
        check_left_out(folder)
        check_room(folder)
        check_options(folder)
        check_damage(folder)
        print(f"{len(models)} models, their records and pages")


main()
