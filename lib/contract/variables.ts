/** The environment variables of this process. No other file touches process.env. */

export type Variables = Readonly<Record<string, string | undefined>>;

/** Live: shows variables that are set later, for instance by Lambda. */
export const variables: Variables = process.env;

/** Sets variables for this process and those it starts later; undefined removes one. */
export function setVariables(values: Variables): void {
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
}

/**
 * Disables onnxruntime's telemetry: unless this is set before the first session, 1.30 writes an id and a database of
 * its sessions to the home folder, to be sent to Microsoft. ORT_DISABLE_TELEMETRY=0 allows it.
 */
export function refuseTelemetry(): void {
  process.env['ORT_DISABLE_TELEMETRY'] ??= '1';
}
