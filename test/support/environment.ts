/**
 * Builds the environment of a child process from variables, or sets the keys of a local AWS in this process. A CI, a
 * shell or the test runner sets more variables (NO_COLOR beside FORCE_COLOR warns on stderr, DEBUG fills it,
 * AWS_PROFILE overrides the local keys), and a child's output must not depend on them.
 */

const NEEDED = [
  'PATH',
  'HOME',
  'TMPDIR',
  'LD_LIBRARY_PATH',
  // They only cost a child time.
  'NODE_COMPILE_CACHE',
  'NODE_V8_COVERAGE',
];

export function childEnvironment(variables: Readonly<Record<string, string>> = {}): Record<string, string> {
  const ours = NEEDED.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]]));
  return { ...(Object.fromEntries(ours) as Record<string, string>), ...variables };
}

/** Variables that override the keys, the endpoint or the behavior of a local AWS. */
const OUTWEIGHS =
  /^AWS_(PROFILE|DEFAULT_PROFILE|SESSION_TOKEN|ENDPOINT_URL_.+|ROLE_.+|WEB_IDENTITY_.+|CONTAINER_.+|IGNORE_.+|MAX_ATTEMPTS|RETRY_MODE)$/;

/** For clients in this process, which find their account in its environment. */
export function useAws(variables: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(process.env)) if (OUTWEIGHS.test(name)) delete process.env[name];
  Object.assign(process.env, variables);
}
