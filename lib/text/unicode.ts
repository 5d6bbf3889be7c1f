/**
 * Characters as Hugging Face's tokenizers class and normalize them: by tables of Unicode that are older than those of Node.
 * The exceptions below were found by comparing every code point with tokenizers 0.23.
 */

/** Ranges of code points, in hex. */
function pointsOf(ranges: string): ReadonlySet<number> {
  const points = new Set<number>();
  for (const range of ranges.split(' ')) {
    const [first = '', last = first] = range.split('-');
    for (let point = Number.parseInt(first, 16); point <= Number.parseInt(last, 16); point++)
      points.add(point);
  }
  return points;
}

const once = (ranges: string) => {
  let points: ReadonlySet<number> | undefined;
  return () => (points ??= pointsOf(ranges));
};

const YOUNG_PUNCTUATION = once(
  '61d 9fd a76 c77 c84 1b4e-1b4f 1b7d-1b7f 2e43-2e4f 2e52-2e5d 10d6e 10ead 10ed0 10f55-10f59 ' +
    '10f86-10f89 113d4-113d5 113d7-113d8 1144b-1144f 1145a-1145b 1145d 11660-1166c 116b9 1183b ' +
    '11944-11946 119e2 11a3f-11a46 11a9a-11a9c 11a9e-11aa2 11b00-11b09 11be1 11c41-11c45 11c70-11c71 ' +
    '11ef7-11ef8 11f43-11f4f 11fff 12ff1-12ff2 16d6d-16d6f 16e97-16e9a 16fe2 1e5ff 1e95e-1e95f',
);
const YOUNG_NONSPACING = once(
  '7fd 897-89f 8ca-8e1 9fe afa-aff b55 c04 c3c d00 d3b-d3c d81 eba ece 180f 1885-1886 1abf-1add ' +
    '1ae0-1aeb 1df6-1dfb a82c a8c5 a8ff a9bd 10d24-10d27 10d69-10d6d 10eab-10eac 10efa-10eff 10f46-10f50 ' +
    '10f82-10f85 11070 11073-11074 110c2 111c9 111cf 1123e 11241 1133b 113bb-113c0 113ce 113d0 113d2 ' +
    '113e1-113e2 11438-1143f 11442-11444 11446 1145e 1182f-11837 11839-1183a 1193b-1193c 1193e 11943 ' +
    '119d4-119d7 119da-119db 119e0 11a01-11a0a 11a33-11a38 11a3b-11a3e 11a47 11a51-11a56 11a59-11a5b ' +
    '11a8a-11a96 11a98-11a99 11b60 11b62-11b64 11b66 11c30-11c36 11c38-11c3d 11c3f 11c92-11ca7 ' +
    '11caa-11cb0 11cb2-11cb3 11cb5-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45 11d47 11d90-11d91 ' +
    '11d95 11d97 11ef3-11ef4 11f00-11f01 11f36-11f3a 11f40 11f42 11f5a 13440 13447-13455 1611e-16129 ' +
    '1612d-1612f 16f4f 16fe4 1cf00-1cf2d 1cf30-1cf46 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 ' +
    '1e026-1e02a 1e08f 1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef 1e6e3 1e6e6 1e6ee-1e6ef ' +
    '1e6f5 1e944-1e94a',
);
const YOUNG_MARKS = once(
  '7fd 897-89f 8ca-8d3 9fe afa-aff b55 c04 c3c cf3 d00 d3b-d3c d81 eba ece 1715 180f 1abf-1add ' +
    '1ae0-1aeb 1cf7 1df6-1dfa a82c a8ff 10d24-10d27 10d69-10d6d 10eab-10eac 10efa-10eff 10f46-10f50 ' +
    '10f82-10f85 11070 11073-11074 110c2 11145-11146 111c9 111ce-111cf 11241 1133b 113b8-113c0 113c2 ' +
    '113c5 113c7-113ca 113cc-113d0 113d2 113e1-113e2 1145e 1182c-1183a 11930-11935 11937-11938 ' +
    '1193b-1193e 11940 11942-11943 119d1-119d7 119da-119e0 119e4 11a01-11a0a 11a33-11a39 11a3b-11a3e ' +
    '11a47 11a51-11a5b 11a8a-11a99 11b60-11b67 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45 11d47 ' +
    '11d8a-11d8e 11d90-11d91 11d93-11d97 11ef3-11ef6 11f00-11f01 11f03 11f34-11f3a 11f3e-11f42 11f5a ' +
    '13440 13447-13455 1611e-1612f 16f4f 16f7f-16f87 16fe4 16ff0-16ff1 1cf00-1cf2d 1cf30-1cf46 1e08f ' +
    '1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef 1e6e3 1e6e6 1e6ee-1e6ef 1e6f5',
);
const YOUNG_CANONICAL = once(
  '105c9 105e4 11383 11385 1138e 11391 113c5 113c7-113c8 11938 16121-16128 16d68-16d6a',
);
const YOUNG_COMPATIBLE = once(
  '32ff a7f1-a7f4 ab69 10781-10785 10787-107b0 107b2-107ba 1ccd6-1ccf9 1e030-1e06d 1f16c 1fbf0-1fbf9',
);
/** Today they are spacing marks or letters. */
const OLD_NONSPACING = /[\u{1734}\u{1171e}]/u;
const OLD_MARKS = /[\u1cf2\u1cf3]/u;
const OLD_PUNCTUATION = /[\u{166d}\u{111c9}]/u;
/** Format characters that are younger. */
const YOUNG_FORMAT = /[\u0890\u0891\u08e2\u{110cd}\u{13430}-\u{1343f}]/u;

const codeOf = (char: string) => char.codePointAt(0) as number;

/** Rust's char::is_whitespace: unlike `\s`, with U+0085 and without U+FEFF. */
export function isSpace(char: string): boolean {
  return /\p{White_Space}/u.test(char);
}

/** Rust's char::is_numeric. */
export function isNumeric(char: string): boolean {
  return /\p{N}/u.test(char);
}

export function isPunctuation(char: string): boolean {
  if (char < '\x80') return /[!-/:-@[-`{-~]/.test(char);
  return /\p{P}/u.test(char) ? !YOUNG_PUNCTUATION().has(codeOf(char)) : OLD_PUNCTUATION.test(char);
}

export function isNonspacingMark(char: string): boolean {
  return /\p{Mn}/u.test(char) ? !YOUNG_NONSPACING().has(codeOf(char)) : OLD_NONSPACING.test(char);
}

export function isMark(char: string): boolean {
  return /\p{M}/u.test(char) ? !YOUNG_MARKS().has(codeOf(char)) : OLD_MARKS.test(char);
}

/** Characters that BertNormalizer removes. */
export function isControl(char: string): boolean {
  if (char === '\t' || char === '\n' || char === '\r') return false;
  return (
    char === '\0' || char === '\ufffd' || (/[\p{Cc}\p{Cf}\p{Co}]/u.test(char) && !YOUNG_FORMAT.test(char))
  );
}

export function isIdeograph(char: string): boolean {
  return /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/u.test(
    char,
  );
}

export type UnicodeForm = 'NFC' | 'NFD' | 'NFKC' | 'NFKD';

/** The normal form, without what younger characters become. */
export function toForm(text: string, form: UnicodeForm): string {
  const own = text.normalize(form);
  if (own === text || form === 'NFC') return own;
  const young = form === 'NFD' ? YOUNG_CANONICAL() : YOUNG_COMPATIBLE();
  const isYoung = (char: string) =>
    young.has(codeOf(char)) || (form === 'NFKD' && YOUNG_CANONICAL().has(codeOf(char)));
  const chars = Array.from(text);
  if (!chars.some(isYoung)) return own;
  let [done, open] = ['', ''];
  for (const char of chars) {
    if (!isYoung(char)) {
      open += char;
      continue;
    }
    done += open.normalize(form) + char;
    open = '';
  }
  return done + open.normalize(form);
}

/** Each character on its own: a sigma at the end of a word is a sigma like any other. */
export function lowerCase(text: string): string {
  return text.includes('\u03a3')
    ? text
        .split('\u03a3')
        .map((part) => part.toLowerCase())
        .join('\u03c3')
    : text.toLowerCase();
}
