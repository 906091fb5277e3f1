"""What hypatiac writes for others to read besides plans and models: rewrites with whole terms."""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import hyp  # noqa: E402

MODELS = [os.path.join(hyp.ROOT, path) for path in
          ("examples/digits/digits.onnx", "tests/models/torch/bert2-script.onnx", "tests/models/torch/resnet18-dynamo.onnx")]


def run(*command, code=0):
    done = hyp.tool(*command)
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout


def check_term(term):
    """Balanced, with nothing left out, and each @number defined once, in front of where it is used. How many there are."""
    assert term.count("(") == term.count(")") and "..." not in term, term
    defined = set()
    for define, used in re.findall(r"\(as (@\d+) |(?<=[ ])(@\d+)(?=[ )]|$)", term):
        assert define not in defined or not define, term
        assert define or used in defined, f"{used} is used before it is defined: {term}"
        defined.add(define or used)
    return len(defined)


def check_full_terms(model):
    shared, longest, plain = 0, 0, None
    for options in ([], ["--full-terms"]):
        events = [json.loads(line) for line in run("hypatiac", model, "--dry-run", "--dump-rewrites", "-", *options).splitlines()]
        if not options:
            plain = events
            continue
        assert len(events) == len(plain)
        for event, short in zip(events, plain):
            for side in ("matched", "result"):
                shared += check_term(event[side])
                longest = max(longest, len(event[side]))
                if "..." not in short[side] and "@" not in event[side]:
                    assert event[side] == short[side]
                elif "(" not in event[side]:
                    assert event[side] == short[side]
            assert {k: v for k, v in event.items() if k not in ("matched", "result")} == \
                {k: v for k, v in short.items() if k not in ("matched", "result")}
    return shared, longest


def main():
    shared, longest = map(max, zip(*[check_full_terms(model) for model in MODELS]))
    assert shared > 10 and longest > 1000, (shared, longest)
    print(f"whole terms of up to {longest} bytes")


if __name__ == "__main__":
    main()
