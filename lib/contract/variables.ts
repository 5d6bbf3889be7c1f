/** The environment variables of this process. No other file touches process.env. */

export type Variables = Readonly<Record<string, string | undefined>>;

/** Live: a variable that is set later, by Lambda for instance, is seen here. */
export const variables: Variables = process.env;

/** For this process and those it starts from now on; undefined removes a variable. */
export function setVariables(values: Variables): void {
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
}

/**
 * onnxruntime 1.30 writes an id and a database of its sessions into the home folder, to be sent to Microsoft, unless
 * this is set before the first session is opened. ORT_DISABLE_TELEMETRY=0 in the environment allows it.
 */
export function refuseTelemetry(): void {
  process.env['ORT_DISABLE_TELEMETRY'] ??= '1';
}
