/** The lines of a batch's input, `{"custom_id", "method", "url", "body"}`. */
import { isObject } from '../../codecs/instances.ts';
import { parseText } from '../../codecs/json.ts';
import { endOfText } from '../../codecs/json-structure.ts';
import { decodeUtf8 } from '../../codecs/utf8.ts';
import { asError } from '../../contract/errors.ts';
import type { EndpointName } from './batch.ts';

/** A request of a batch. */
export interface Line {
  readonly customId: string;
  /** JSON as it is in the file, so that no number is rounded. */
  readonly body: string;
}

/** In the form of OpenAI's API; `line` counts from 1. */
export interface LineProblem {
  readonly code: string;
  readonly message: string;
  readonly param: string | null;
  readonly line: number | null;
}

export type Problem = Omit<LineProblem, 'line'>;

const ID_CHARACTERS = 512;

export function readLine(bytes: Uint8Array, endpoint: EndpointName): Line | Problem {
  const text = decodeUtf8(bytes);
  let parsed: unknown;
  try {
    parsed = text === undefined ? undefined : parseText(text);
  } catch (error) {
    const { message } = asError(error);
    return problem('invalid_json_line', `This line is not parseable as valid JSON: ${message}`, null);
  }
  if (text === undefined || !isObject(parsed))
    return problem('invalid_json_line', 'This line is not parseable as valid JSON.', null);
  const { custom_id: customId, method, url, body } = parsed;
  for (const name of ['custom_id', 'method', 'url', 'body'])
    if (parsed[name] === undefined || parsed[name] === null)
      return problem('missing_required_parameter', `Missing required parameter: '${name}'.`, name);
  if (typeof customId !== 'string' || customId === '' || customId.length > ID_CHARACTERS) {
    const expected = `Expected a text of 1 to ${ID_CHARACTERS} characters as 'custom_id'.`;
    return problem('invalid_custom_id', expected, 'custom_id');
  }
  if (method !== 'POST') return problem('invalid_method', "Expected 'POST' as 'method'.", 'method');
  if (url !== endpoint)
    return problem(
      'url_mismatch',
      `The URL provided for this request does not match the batch endpoint, ${endpoint}.`,
      'url',
    );
  const own = isObject(body) ? memberText(text, 'body') : undefined;
  if (own === undefined) return problem('invalid_request', "Expected an object as 'body'.", 'body');
  return { customId, body: own };
}

export function problem(code: string, message: string, param: string | null): Problem {
  return { code, message, param };
}

/** The text of a member of an object. @param json valid. @returns the last of this name, as JSON.parse takes it */
export function memberText(json: string, name: string): string | undefined {
  let found: string | undefined;
  let key: string | undefined;
  let depth = 0;
  let begin = 0;
  for (let at = 0; at < json.length; at++) {
    const character = json.charAt(at);
    if (character === '"') {
      const end = endOfText(json, at);
      if (depth === 1 && key === undefined) {
        key = JSON.parse(json.slice(at, end + 1));
        begin = json.indexOf(':', end) + 1;
      }
      at = end;
    } else if (character === '{' || character === '[') depth++;
    else if (depth === 1 && (character === ',' || character === '}')) {
      if (key === name) found = json.slice(begin, at).trim();
      key = undefined;
      if (character === '}') depth--;
    } else if (character === '}' || character === ']') depth--;
  }
  return found;
}
