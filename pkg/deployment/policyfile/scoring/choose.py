

def choose(context, arms, default=None, exclude=(), learning=False, draw=random.SystemRandom().random):
    """Returns the arm to play, and with what probability each arm is played.

    context    the context's features by name; None or {} for none, and where there is no schema
    arms       a list of arms: dicts of features by name with the text "id", or lists of numbers without a schema
    default    the arm that was played before there was a policy, by its id or index; None: the first one
    exclude    arms that must not be played, by id or index
    learning   how a device plays whose decision is learnt from: it explores, and a share is a control group.
               Elsewhere exploring would cost and show nothing, and the best arm by the estimate is played
    draw       gives random numbers of [0, 1)

    Arms are named by their ids, or by their indices without a schema; probabilities are a dict by these names. A
    feature that is missing, or None, counts as nothing. What does not fit the schema is a ValueError.
    """
    rows = vectors(context, arms)
    p, names = _POLICY, _names(arms)
    fallback = 0 if default is None else _index(default, names)
    out = {_index(one, names) for one in exclude}
    kept = [i for i in range(len(rows)) if i not in out]
    if not kept:
        raise ValueError("all arms are excluded")
    rows = [rows[i] for i in kept]
    fallback = kept.index(fallback) if fallback in kept else 0
    positions, weights, equal = _lottery(p, rows, fallback, learning)
    control = p["control"] if learning else 0.0
    pick = fallback
    if not (control > 0 and draw() < control):
        pick = _draw(positions, weights, equal, draw)
    shares = {name: 0.0 for name in names}
    for i, name in enumerate(kept):
        share = weights[positions.index(i)] if i in positions else 0.0
        if control > 0:
            share *= 1 - control
            if i == fallback:
                share += control
        shares[names[name]] = share
    return names[kept[pick]], shares


def vectors(context, arms):
    """Returns the vector of each arm, as a device makes it."""
    arms = list(arms)
    if not 1 <= len(arms) <= 1024:
        raise ValueError("a decision has 1 to 1024 arms")
    if _SCHEMA is None:
        if context:
            raise ValueError("there is no schema: a context means nothing")
        return [_unit(_numbers(x, i)) for i, x in enumerate(arms)]
    shared = _read(_SCHEMA["context"], context or {}, "the context")
    seen = set()
    rows = []
    for i, arm in enumerate(arms):
        where = "arm %d" % i
        if not isinstance(arm, dict):
            raise ValueError(where + ": with a schema an arm is a dict of its features")
        _text(arm.get("id"), where, "id")
        if not arm["id"] or arm["id"] in seen:
            raise ValueError(where + ": its id must be a text that no other arm has")
        seen.add(arm["id"])
        fields = _SCHEMA["arms"]
        features = arm if "id" in fields else {k: v for k, v in arm.items() if k != "id"}
        rows.append(_unit(_vector({**shared, **_read(fields, features, where)})))
    return rows


def _names(arms):
    return [arm["id"] for arm in arms] if _SCHEMA is not None else list(range(len(arms)))


def _index(arm, names):
    if _SCHEMA is not None and isinstance(arm, str) and arm in names:
        return names.index(arm)
    if isinstance(arm, numbers.Integral) and not isinstance(arm, bool) and 0 <= arm < len(names):
        return int(arm)
    raise ValueError("a default or an excluded arm is none of the arms")


def _numbers(x, i):
    x = [_number(v, "arm %d" % i, "number") for v in x]
    if len(x) != _POLICY["dimension"]:
        raise ValueError("arm %d must have %d numbers" % (i, _POLICY["dimension"]))
    chosen = {}
    for g in _POLICY["structure"]:
        used = chosen.get(g["choice"]) if g["choice"] else None
        for j in range(g["count"] * g["size"]):
            run = j // g["size"]
            if x[g["from"] + j] != 0 and (used := run if used is None else used) != run:
                raise ValueError("arm %d is other than 0 in two runs of which an arm has at most one" % i)
        chosen[g["choice"]] = used
    return x


def _number(value, where, name):
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            x = float(value)
        except OverflowError:
            x = math.inf
        if math.isfinite(x):
            return x
    raise ValueError("%s: %s must be a finite number, or None" % (where, name))


def _text(value, where, name):
    if isinstance(value, str):
        try:
            if len(value.encode("utf-8")) <= 256:
                return value
        except UnicodeEncodeError:
            pass
    raise ValueError("%s: %s must be a text of at most 256 bytes" % (where, name))


def _read(fields, features, where):
    for name in features:
        if name not in fields:
            raise ValueError("%s has a field that the schema does not have; it has %s" % (where, sorted(fields)))
    return {name: _block(field, features.get(name), where, name) for name, field in fields.items()}


def _block(field, value, where, name):
    """A block is all zeros but for a number at a place."""
    if value is None:
        return 0, 0.0
    kind = field["kind"]
    if kind == "number":
        x, low, high = _number(value, where, name), field["low"], field["high"]
        if x <= low:
            return 0, -1.0
        if x >= high:
            return 0, 1.0
        t = (x - low) / (high - low)
        return 0, (t + t) - 1
    if kind == "flag":
        if isinstance(value, (str, numbers.Number)) and not isinstance(value, bool) or value not in (True, False):
            raise ValueError("%s: %s must be True, False or None" % (where, name))
        return 0, 1.0 if value else -1.0
    if kind == "buckets":
        place = bisect.bisect_right(field["thresholds"], _number(value, where, name))
    else:
        text = _text(value, where, name)
        if kind == "hashed":
            h = hashlib.sha256(("riffle/v1/feature\0%s\0%s" % (name, text)).encode("utf-8")).digest()
            return int.from_bytes(h[:4], "big") % field["buckets"], -1.0 if h[4] & 1 else 1.0
        values = field["values"]
        if text not in values and not field["other"]:
            raise ValueError("%s: %s must be one of the %d values of the schema" % (where, name, len(values)))
        place = values.index(text) if text in values else len(values)
    if not field["baseline"]:
        return place, 1.0
    return (0, 0.0) if place == 0 else (place - 1, 1.0)


def _vector(blocks):
    out = [0.0] * _POLICY["dimension"]
    for term in _SCHEMA["terms"]:
        place, value = 0, 1.0
        for name, width in term["fields"]:
            at, number = blocks[name]
            place, value = place * width + at, value * number
        value *= _SCHEMA["scale"]
        if value != 0:
            out[term["offset"] + place] = value
    return out


def _dot(x, y):
    total = 0.0  # not sum(): newer versions of Python round it otherwise
    for a, b in zip(x, y):
        total += a * b
    return total


def _norm(x):
    largest = max(abs(v) for v in x)
    if largest == 0 or math.isinf(largest):
        return largest
    total = 0.0
    for v in x:
        total += (v / largest) * (v / largest)
    return largest * math.sqrt(total)


def _unit(x):
    if _dot(x, x) < 1 - 1e-9:
        return x
    length = _norm(x)
    if length <= 1:
        return x
    if not math.isfinite(length):
        x = [v / sys.float_info.max for v in x]
        length = _norm(x)
    x = [v / length for v in x]
    while _norm(x) > 1:
        x = [v * (1 - 2**-52) for v in x]
    return x


def _form(s, x):
    total, k = 0.0, 0
    for i, v in enumerate(x):
        inner = 0.5 * s[k] * v
        k += 1
        for u in x[i + 1:]:
            inner += s[k] * u
            k += 1
        total += v * inner
    return 2 * total


def _half_width(covariance, width, x):
    form = _form(covariance, x)
    if form < 1e-280:
        largest = max(abs(v) for v in x)
        if 0 < largest < 1e-100:
            return width * largest * math.sqrt(max(0.0, _form(covariance, [v / largest for v in x])))
    return width * math.sqrt(max(0.0, form))


def _eliminate(p, arms):
    left = list(range(len(arms)))
    for stage in p["stages"]:
        if len(left) == 1:
            break
        middle = [_dot(arms[a], stage["theta"]) for a in left]
        half = [_half_width(stage["covariance"], stage["width"], arms[a]) for a in left]
        best = max(m - h for m, h in zip(middle, half))
        left = [a for a, m, h in zip(left, middle, half) if m + h >= best]
    return left


def _first_largest(values):
    return max(range(len(values)), key=lambda i: values[i])


def _sure(p, better, than):
    difference = [a - b for a, b in zip(better, than)]
    gain = _dot(difference, p["theta"])
    if p["caution"] == 0:
        return gain > 0
    if p["covariance"] is None:
        return False
    return gain > p["caution"] * _half_width(p["covariance"], 1.0, difference)


def _lottery(p, arms, fallback, learning):
    """Positions of arms, the probability of each, and whether these are equal by construction."""
    play = p["play"]
    if play == "default":
        return [fallback], [1.0], False
    if play == "optimistic" and learning:
        return [_optimistic(p, arms)], [1.0], False
    left = _eliminate(p, arms)
    if play == "uniform":
        return left, [1 / len(left)] * len(left), True
    top = best = left[_first_largest([_dot(arms[a], p["theta"]) for a in left])]
    if (p["caution"] > 0 or not learning) and not _sure(p, arms[best], arms[fallback]):
        best = fallback
    if play == "greedy" or not learning or len(left) == 1 and best == left[0]:
        return [best], [1.0], False
    weights, rest = _explore(p, arms, left, top)
    if rest != 0:
        if best not in left:
            left, weights = left + [best], weights + [0.0]
        weights[left.index(best)] += rest
    return left, weights, False


def _explore(p, arms, left, top):
    if p["play"] == "inverse-gap":
        value = [max(-1.0, min(_dot(arms[a], p["theta"]), 1.0)) for a in left]
        best = value[left.index(top)]
        weights = [1 / (len(left) + p["gamma"] * (best - v)) for v in value]
        rest = 1.0
        for w in weights:
            rest -= w
        return weights, max(0.0, rest)
    if p["play"] != "sampled":
        raise ValueError("devices explore by an optimal design here, which this file does not compute: leave "
                         "learning out")
    weights = [0.0] * len(left)
    for theta in p["draws"]:
        weights[_first_largest([_dot(arms[a], theta) for a in left])] += 1
    weights = [w / len(p["draws"]) for w in weights]
    if p["explore"] == 0:
        return weights, 0.0
    return [w * p["explore"] for w in weights], 1 - p["explore"]


def _optimistic(p, arms):
    if p["criterion"] is not None:
        forms = [_form(p["criterion"]["covariance"], x) for x in arms]
        a = _first_largest(forms)
        if forms[a] >= p["criterion"]["threshold"]:
            return a
    left, stage = _eliminate(p, arms), p["optimism"]
    upper = [_dot(arms[a], stage["theta"]) + _half_width(stage["covariance"], stage["width"], arms[a]) for a in left]
    return left[_first_largest(upper)]


def _draw(positions, weights, equal, draw):
    if len(positions) == 1 and not equal:
        return positions[0]
    u, last = draw(), 0
    if equal:
        return positions[int(u * len(positions))]
    for i, w in enumerate(weights):
        if w == 0:
            continue
        last = i
        if u < w:
            break
        u -= w
    return positions[last]


def _floats(value):
    if isinstance(value, list):
        return [_floats(v) for v in value]
    if isinstance(value, dict):
        return {k: _floats(v) for k, v in value.items()}
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


for _key in ("theta", "stages", "explore", "gamma", "draws", "control", "caution", "covariance", "criterion",
             "optimism"):
    _POLICY[_key] = _floats(_POLICY[_key])
for _field in [*_SCHEMA["context"].values(), *_SCHEMA["arms"].values()] if _SCHEMA else []:
    for _key in ("low", "high", "thresholds"):
        _field[_key] = _floats(_field[_key])
