/** The log of what the bench starts: warnings and errors alone. */
export const QUIET = { info: () => undefined, warn: console.error, error: console.error };
