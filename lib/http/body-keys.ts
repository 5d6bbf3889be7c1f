/**
 * Checks the keys beside the instances of a body. An unknown key is refused, because a caller who writes it expects
 * something of it: a call to a webhook, or a longer life of the result. Keys of requests to other servers that change
 * nothing here are ignored with a warning.
 */
import { BY_POSITION, isObject, recordsKey } from '../codecs/instances.ts';
import { quoteName, quoteNames } from '../codecs/quote.ts';
import { badRequest, ServingError } from '../contract/errors.ts';
import { foldName, suggest } from '../contract/suggest.ts';
import type { HttpRequest } from './request.ts';

const INSTANCES = 'instances';
/** Keys that a body to `POST /predict` may have. */
export const PREDICT_KEYS: readonly string[] = [INSTANCES, BY_POSITION];
const SAID = ['notify', 'taskToken', 'expiresAfter', 'delaySeconds', 'priority'];
/** Keys that a body to `POST /predictions` may have. */
export const SUBMIT_KEYS: readonly string[] = [...PREDICT_KEYS, 'uri', 'uris', ...SAID];
/** Keys of a record as clients of the queue write it. */
export const RECORD_KEYS: readonly string[] = ['data', 'uri', 'serde', ...SAID];
/** Those that the query may have, because an image, a form or a table has no other place for them. */
const IN_QUERY: readonly string[] = ['notify', 'expiresAfter', 'delaySeconds', 'priority', 'model'];

/**
 * Keys that TensorFlow Serving, the Open Inference Protocol Vertex AI and MLflow define; the last three are those of a golden
 * request.
 */
const FOREIGN: ReadonlySet<string> = new Set([
  'signature_name',
  'id',
  'parameters',
  'params',
  'predictions',
  'tolerance',
  'made',
]);

const ASK = 'ask for the result, with GET /predictions/{uri} and the header "Prefer: wait=20"';
const WAITS = 'POST /predictions answers at once, POST /predict when the model has run';
const ADDRESS =
  'the address of a request says which model answers, ?model=name or the job of the path, with the version that serves';
const SETTING = 'it is a setting of the job, in config.yaml';

/** Our equivalents, by the key's meaning without case and separators. */
const INSTEAD: readonly (readonly [means: RegExp, instead: string])[] = [
  [
    /^uris?$/,
    'POST /predict stores no result; POST /predictions does, and the header "Prefer: respond-async" asks for it',
  ],
  [
    /webhook|callback|notif/,
    `no address of a request is called back: POST /predictions takes "notify", the name of a target in config.yaml; or ${ASK}`,
  ],
  [/^delay|priority/, 'POST /predictions takes delaySeconds and priority, POST /predict answers at once'],
  [
    /ttl|^expir|retention/,
    'how long a result stays is a setting of the job, resultTtlSeconds in config.yaml; expiresAfter of POST /predictions says how long a record may wait',
  ],
  [/^model(?:name|id|version)?$|^version$/, ADDRESS],
  [/^(?:is)?async$|^sync$|^wait/, WAITS],
  [/timeout|deadline/, 'a client ends its own waiting'],
  [/idempoten|^identity$|^requestid$/, 'the header Idempotency-Key names an enqueue'],
  [/^canary/, 'the header Canary-Key says by what a canary takes a request'],
  [/^tenant|^group$/, 'tenants are those of SQS: the SDK sends them'],
  [/batch|filter|^postprocess|^top[nk]$|^image$/, SETTING],
  [/^outputs?(?:filter)?$/, 'POST /v2/models/{job}/infer selects outputs'],
  [/^inputs$/, 'a body has "instances" or "inputs"'],
];

const NONE: readonly string[] = [];

/** `checkKeys` of a body with instances, or with what it may have in their place. */
export function checkInstances(body: unknown, known: readonly string[]): readonly string[] {
  const key = recordsKey(body);
  return checkKeys(body, key === INSTANCES ? known : [key, ...known]);
}

/**
 * @param known the first of which the body needs: what is wrong without it is said where it is read
 * @returns the keys that are ignored
 * @throws bad_request for a key that is unknown, with what was meant or what there is instead
 */
export function checkKeys(body: unknown, known: readonly string[]): readonly string[] {
  if (!isObject(body)) return NONE;
  const keys = Object.keys(body);
  if (keys.length === 1 && keys[0] === known[0]) return NONE;
  const ignored: string[] = [];
  for (const key of keys) {
    if (known.includes(key)) continue;
    if (FOREIGN.has(key)) ignored.push(key);
    else
      assertNeedless(
        key,
        known,
        known.slice(0, 1).some((first) => Object.hasOwn(body, first)),
      );
  }
  return ignored;
}

/** @throws bad_request */
function assertNeedless(key: string, known: readonly string[], isComplete: boolean): void {
  const where = `unknown key ${quoteName(key)} beside "${known[0]}"`;
  if (!isComplete) return;
  const near = suggest(key, known);
  if (near !== undefined) throw badRequest(`${where}; did you mean "${near}"?`);
  throw badRequest(
    `${where}: ${insteadOf(key) ?? `expected ${quoteNames(known)}; inputs are in the instances`}`,
  );
}

/** Types that a body of JSON is sent instead of, and what takes them. */
const ELSEWHERE: readonly (readonly [type: RegExp, instead: string])[] = [
  [/^multipart\//, 'a form with files is multipart/form-data'],
  [/ndjson|jsonl/, 'POST /predictions takes a record on each line'],
];

/** @throws unsupported_media_type naming what takes the body */
export function assertForm(type: string, path: string): void {
  if (type === 'application/json') return;
  const other = ELSEWHERE.find(([form]) => form.test(type));
  if (!other) return;
  const message = `content-type ${quoteName(type)}: POST ${path} takes JSON, text/csv, an image or a form; ${other[1]}`;
  throw new ServingError('unsupported_media_type', message);
}

/** The parameters of the query of a record. */
const QUERY: readonly string[] = ['uri', 'identity', 'fetched'];

/**
 * Parameters that belong elsewhere are refused; other parameters are those of caches and proxies.
 * @param isAll whether the request is about every result, which none of them may narrow
 * @throws bad_request
 */
export function assertQuery({ method, parameters, headers }: HttpRequest, isAll = false): void {
  const type = headers['content-type'] ?? '';
  for (const name of Object.keys(parameters)) {
    const shown = `the query has ${quoteName(name)}`;
    if (method === 'POST') {
      // An image has no other place for it.
      if (IN_QUERY.includes(name) || (name === 'uri' && type.startsWith('image/'))) continue;
      const isOfBody = [...SUBMIT_KEYS, ...RECORD_KEYS].some((key) => foldName(key) === foldName(name));
      const instead = isOfBody ? 'it belongs in the body' : insteadOf(name);
      if (instead !== undefined) throw badRequest(`${shown}: ${instead}`);
      continue;
    }
    if (QUERY.includes(name)) continue;
    if (foldName(name) === 'wait') throw badRequest(`${shown}: the header "Prefer: wait=20" waits`);
    const near = suggest(name, QUERY);
    if (near !== undefined) throw badRequest(`${shown}; did you mean "${near}"?`);
    if (isAll && !/^x-/i.test(name)) throw badRequest(`${shown}: the results of a page cannot be chosen`);
  }
}

function insteadOf(key: string): string | undefined {
  const folded = foldName(key);
  return INSTEAD.find(([means]) => means.test(folded))?.[1];
}

/** The header that says what was ignored. */
export function warningOf(ignored: readonly string[]): Record<string, string> | undefined {
  if (ignored.length === 0) return undefined;
  return { warning: `299 - "ignored keys of the body: ${[...new Set(ignored)].join(', ')}"` };
}
