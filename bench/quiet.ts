/** For what the bench starts of local/: it tells of warnings and errors alone. */
export const QUIET = { info: () => undefined, warn: console.error, error: console.error };
