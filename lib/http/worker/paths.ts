/** The paths of the worker service, and how its errors are answered. The rest of this folder is loaded at its first request. */
import type { ErrorBody } from '../response.ts';

const PATHS: ReadonlySet<string> = new Set([
  '/encode',
  '/encode_json',
  '/encode_img_bytes',
  '/v1/encode_img_bytes',
  '/encode_img_url',
  '/status/server',
]);

export function isWorkerPath(path: string): boolean {
  return PATHS.has(path);
}

/** `error_code` is the HTTP status, 0 for success; `code` is ours. */
export const errorEnvelope: ErrorBody = ({ status, publicMessage, code }) => ({
  error_code: status,
  error_message: publicMessage,
  data: null,
  code,
});
