/**
 * In: variables. Out: the environment of a child process: those, and what any program needs of ours; or our own process
 * with the keys of a local AWS.
 * Trap: a CI, a shell or the test runner sets more than that: NO_COLOR beside FORCE_COLOR is a warning on stderr, DEBUG
 * fills it, AWS_PROFILE outweighs the keys of the local stack. What a child says must not depend on it.
 */

const NEEDED = [
  'PATH',
  'HOME',
  'TMPDIR',
  'LD_LIBRARY_PATH',
  // They cost a child nothing but time.
  'NODE_COMPILE_CACHE',
  'NODE_V8_COVERAGE',
];

export function childEnvironment(variables: Readonly<Record<string, string>> = {}): Record<string, string> {
  const ours = NEEDED.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]]));
  return { ...(Object.fromEntries(ours) as Record<string, string>), ...variables };
}

/** What outweighs the keys, the endpoint or the manners of a local AWS. */
const OUTWEIGHS =
  /^AWS_(PROFILE|DEFAULT_PROFILE|SESSION_TOKEN|ENDPOINT_URL_.+|ROLE_.+|WEB_IDENTITY_.+|CONTAINER_.+|IGNORE_.+|MAX_ATTEMPTS|RETRY_MODE)$/;

/** For clients in this process, which find their account in its environment. */
export function useAws(variables: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(process.env)) if (OUTWEIGHS.test(name)) delete process.env[name];
  Object.assign(process.env, variables);
}
