/**
 * Decodes bytes as UTF-8, strictly. A decoder that replaces a broken byte by U+FFFD would give a model a different text
 * from the one that was sent.
 */
const strict = /* @__PURE__ */ new TextDecoder('utf-8', { fatal: true });

const LINE_FEED = 10;

/** A byte order mark in front is dropped. @returns undefined for bytes that are not UTF-8 */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return strict.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Where bytes are not UTF-8, and what to do: for the author of a file. */
export function utf8Problem(bytes: Uint8Array): string {
  const isUtf16 = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
  const what = isUtf16 ? 'is UTF-16' : `line ${brokenLine(bytes)} is not valid UTF-8`;
  return `${what}; save it as UTF-8 (in Excel "CSV UTF-8")`;
}

/** The first line that cannot be decoded, from 1. */
function brokenLine(bytes: Uint8Array): number {
  for (let line = 1, start = 0; ; line++) {
    const end = bytes.indexOf(LINE_FEED, start);
    if (end < 0 || decodeUtf8(bytes.subarray(start, end)) === undefined) return line;
    start = end + 1;
  }
}
