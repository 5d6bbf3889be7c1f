/** Errors that do not say what to do, or not of what they speak. */
export const HINTS: readonly (readonly [RegExp, string])[] = [
  [/^NOAUTH/, 'NOAUTH: it asks for a password, as in redis://user:password@host:port'],
  [/^WRONGPASS/, 'WRONGPASS: it refuses the user or the password'],
  [
    /^Unknown RESP type/,
    'its answer is not one of Redis: another service (HTTP?) has this port, or it wants TLS (rediss://)',
  ],
  [/^Connection is closed\.$/, 'it ended the connection; if it expects TLS, write rediss://'],
  [/ENOTFOUND|EAI_AGAIN/, 'the host is unknown ($&)'],
  [/ECONNREFUSED/, 'nothing listens there ($&)'],
];

/** Those of an address that begins with rediss://. */
export const TLS_HINTS: typeof HINTS = [
  [/wrong version number/, 'it does not speak TLS: write redis://'],
  [/ETIMEDOUT/, 'no answer in time ($&); if it does not speak TLS, write redis://'],
  [/^Connection is closed\.$/, 'it ended the connection'],
  ...HINTS,
];
