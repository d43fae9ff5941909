"""Random search result entries, some with values that look like what follows them."""

from support.directory.ber_reference import element, element84, entry_content


def planted(chance, names):
    """A value that contains what looks like the header of an attribute."""
    name = chance.choice(names)
    inner = chance.randbytes(chance.randrange(4))
    fake = element(0x30, element(4, name) + element(0x31, element(4, inner)))
    cut = chance.randrange(len(fake) + 1)
    return chance.randbytes(chance.randrange(5)) + fake[:cut] + chance.randbytes(chance.randrange(5))


def random_value(chance, names):
    match chance.randrange(8):
        case 0:
            return planted(chance, names)
        case 1:
            return b"0" * chance.randrange(200)
        case 2 if chance.randrange(20) == 0:
            return chance.randbytes(chance.randrange(70_000))
        case _:
            return chance.randbytes(chance.randrange(40))


def random_content(chance, names):
    chosen = [name for name in names if chance.randrange(10)]
    if chance.randrange(4) == 0:
        chance.shuffle(chosen)
    attributes = []
    for name in chosen:
        count = 1 if chance.randrange(6) else chance.randrange(4)
        attributes.append((name, [random_value(chance, names) for _ in range(count)]))
    dn = b"CN=" + (chance.choice([b"0", b"a", b"1"]) * chance.randrange(150))
    return entry_content(dn, attributes, chance.choice([element, element84]))
