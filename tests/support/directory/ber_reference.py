"""BER written and read in the plainest way, by other means than mqdssm's: a yardstick for its tests."""

from mqdssm.directory import filters as f

CONSTRUCTED = 0x20


def element(tag, content):
    """One element; the length in the shortest form."""
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    digits = f"{size:x}"
    octets = bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
    return bytes([tag, 128 + len(octets)]) + octets + content


def element84(tag, content):
    """One element as Active Directory writes it: constructed ones with four octets of length."""
    if tag & CONSTRUCTED:
        return bytes([tag, 0x84]) + len(content).to_bytes(4, "big") + content
    return element(tag, content)


def read_all(octets):
    """The elements of `octets`: (tag, octets) or, when constructed, (tag, list of elements)."""
    found = []
    while octets:
        tag, size, start = octets[0], octets[1], 2
        if size >= 128:
            start += size - 128
            size = int(octets[2:start].hex(), 16)
        content, octets = octets[start : start + size], octets[start + size :]
        assert len(content) == size
        found.append((tag, read_all(content) if tag & CONSTRUCTED else content))
    return found


def read_filter(node):
    """The filter that an element from `read_all` stands for ([RFC4511] 4.5.1.7)."""
    tag, content = node
    match tag:
        case 0xA0 | 0xA1:
            return (f.And if tag == 0xA0 else f.Or)(tuple(map(read_filter, content)))
        case 0xA2:
            (operand,) = content
            return f.Not(read_filter(operand))
        case 0xA3 | 0xA5 | 0xA6 | 0xA8:
            (_, name), (_, value) = content
            kinds = {0xA3: f.Equal, 0xA5: f.GreaterOrEqual, 0xA6: f.LessOrEqual, 0xA8: f.Approx}
            return kinds[tag](name.decode(), value)
        case 0xA4:
            (_, name), (_, parts) = content
            by_tag = {want: [part for have, part in parts if have == want] for want in (0x80, 0x81, 0x82)}
            assert [have for have, _ in parts] == sorted(have for have, _ in parts)
            return f.Substrings(
                name.decode(),
                by_tag[0x80][0] if by_tag[0x80] else None,
                tuple(by_tag[0x81]),
                by_tag[0x82][0] if by_tag[0x82] else None,
            )
        case 0x87:
            return f.Present(content.decode())
        case 0xA9:
            parts = dict(content)
            name, rule = parts.get(0x82), parts.get(0x81)
            return f.Extensible(
                name and name.decode(), rule and rule.decode(), parts[0x83], parts.get(0x84) == b"\xff"
            )
    raise AssertionError(hex(tag))


def message(operation, message_id=5, controls=b"", form=element):
    """One LDAPMessage; the id below 128."""
    return form(0x30, bytes([2, 1, message_id]) + operation + controls)


def entry_content(dn, attributes, form=element):
    """The content of a SearchResultEntry; `attributes` are pairs of name and list of values."""
    parts = [
        form(0x30, form(4, name) + form(0x31, b"".join(form(4, value) for value in values)))
        for name, values in attributes
    ]
    return form(4, dn) + form(0x30, b"".join(parts))
