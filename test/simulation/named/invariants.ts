/** The invariants of further models: each answer is of the model that was named, and none costs the records of another. */
import type { EnqueueFact, History, OutcomeFact } from '../history.ts';
import type { Invariant, Violation } from '../violation.ts';
import type { NamedPointer } from './facts.ts';

/** An unknown name is looked for again after two seconds. */
const UNKNOWN_MS = 5_000;
/** The answers of API Gateway where no environment is free, and where one ended. */
const BUSY: ReadonlySet<string> = new Set(['queue_unavailable', 'internal']);
/** An event that S3, Redis or the network disturbed may still be under way. */
const DISTURBED_MS = 30_000;

function isDisturbed({ troubles, kills }: History, fromMs: number, toMs: number): boolean {
  return (
    troubles.some((one) => one.fromMs <= toMs && one.toMs >= fromMs - DISTURBED_MS) ||
    kills.some(({ how, atMs }) => how !== 'reaped' && atMs >= fromMs - DISTURBED_MS && atMs <= toMs)
  );
}

/** True if the model was there at each moment of this time. */
function wasThere({ named }: History, model: string, fromMs: number, toMs: number): boolean {
  const first = named.pointerAt(model, fromMs);
  const all = named.pointersWithin(model, fromMs, toMs);
  return first !== undefined && all.every(({ version }) => version !== undefined);
}

/** True if this outcome is right for a record that names a further model: not_found where there is none, else as for any model. */
export function isRightFor(
  history: History,
  { model = '', kind, calledMs }: EnqueueFact,
  { status, code, model: version, atMs }: OutcomeFact,
): boolean {
  const { named } = history;
  if (code === 'not_found') return !wasThere(history, model, calledMs, atMs);
  if (!named.uploaded.has(model)) return false;
  const canFail = named.versions.get(version)?.flaw !== undefined;
  return (kind === 'good' || kind === 'slow') && !canFail
    ? status === 'succeeded'
    : ['model_failed', 'max_receives_exceeded'].includes(code ?? '');
}

/** A request for a model that is not there is refused with not_found, one for a model that is there never, and nothing reads below an unknown name. */
export const unknownNotFound: Invariant = (history) => {
  const { requests, looked, uploaded } = history.named;
  const broken = (text: string, atMs: number): Violation => ({
    invariant: 'an unknown model is not found',
    text,
    atMs,
    about: [],
  });
  const answers = requests.flatMap(({ model, number, calledMs, endedMs, error }) => {
    const said = error ?? 'an answer';
    if (error === 'not_found')
      return wasThere(history, model, calledMs - UNKNOWN_MS, endedMs)
        ? [broken(`request ${number} got not_found for ${model}, which is there`, endedMs)]
        : [];
    const isWrong =
      !BUSY.has(error ?? '') && (error === undefined || !isDisturbed(history, calledMs, endedMs));
    return !uploaded.has(model) && isWrong
      ? [broken(`request ${number} got ${said} for ${model}, which is not there`, endedMs)]
      : [];
  });
  const looks = looked.map(({ model, process, atMs }) =>
    broken(`${process} read below ${model}, which is not there`, atMs),
  );
  return [...answers, ...looks];
};

/** Each result of a further model names a version of it, which made it and served not long before. */
export const namedVersions: Invariant = (history) => {
  const { named } = history;
  const ofQueue = history.outcomes.flatMap(({ identity, uri, model, answer, atMs }) => {
    const name = history.enqueueOf(identity)?.model;
    return name === undefined
      ? []
      : [{ name, what: `the result of ${uri}`, version: model, answer, atMs, about: [uri] }];
  });
  const ofRequests = history.predictions.flatMap(({ named: name, number, model, answer, endedMs }) =>
    name === undefined
      ? []
      : [{ name, what: `the prediction of ${number}`, version: model, answer, atMs: endedMs, about: [] }],
  );
  return [...ofQueue, ...ofRequests].flatMap(({ name, what, version, answer, atMs, about }) => {
    if (!answer) return [];
    const facts = named.versions.get(version);
    if (facts?.model !== name || facts.version !== answer.version) {
      const text = `${what} names the version ${version} (${facts?.version} of ${facts?.model}), and was made by version ${answer.version} of ${name}`;
      return [{ invariant: 'versions are named', text, atMs, about }];
    }
    const late = lateBy(history, name, version, atMs);
    if (late === undefined) return [];
    const text = `${what} was made by version ${answer.version} of ${name}, ${Math.round(late / 1000)} s after another one served`;
    return [{ invariant: 'new versions serve', text, atMs, about }];
  });
};

/** How long after the first version that replaced it and opens, or the deletion; undefined for soon. */
function lateBy(history: History, name: string, version: string, atMs: number): number | undefined {
  const { refreshMs, timeoutMs } = history.facts;
  const patienceMs = 2 * refreshMs + timeoutMs + 5_000;
  const before = history.named.pointers.filter((one) => one.model === name && one.atMs <= atMs);
  const last = before.findLastIndex((one) => one.version === version);
  const ends = before.slice(last + 1).find((one) => opens(history, one))?.atMs;
  if (ends === undefined || atMs - ends <= patienceMs) return undefined;
  const isTroubled = history.troubles.some(
    ({ what, fromMs, toMs }) => what !== 'clock' && fromMs <= atMs && toMs >= ends - patienceMs,
  );
  return isTroubled ? undefined : atMs - ends;
}

/** A deletion counts as well: nothing serves after it. */
function opens({ named }: History, { version }: NamedPointer): boolean {
  const flaw = named.versions.get(version ?? '')?.flaw;
  return flaw !== 'broken' && flaw !== 'ends';
}

/** In an event whose records name a model that does not open, those of others have their outcomes. */
export const costsItsOwn: Invariant = (history) => {
  const violations: Violation[] = [];
  for (const { startedMs, atMs, messages } of history.named.deliveries) {
    const records = messages.map((message) => ({ ...message, enqueue: history.enqueueOf(message.identity) }));
    const isCalm = records.every(({ enqueue, receives }) => enqueue?.kind === 'good' && receives === 1);
    if (!isCalm || isDisturbed(history, startedMs, atMs)) continue;
    for (const { enqueue, isReturned } of records) {
      if (!isReturned || !enqueue || mayFail(history, enqueue, startedMs, atMs)) continue;
      const text = `record ${enqueue.number} of ${enqueue.uri} came again, because of a model that it does not name`;
      violations.push({ invariant: 'a model costs its own records', text, atMs, about: [enqueue.uri] });
    }
  }
  return violations;
};

/** True if what keeps the record from running may be its own model. A version that is being deleted or pushed may be half there. */
function mayFail(history: History, { model }: EnqueueFact, fromMs: number, toMs: number): boolean {
  if (model === undefined) return false;
  const { named } = history;
  if (!named.uploaded.has(model)) return false;
  const all = named.pointersWithin(model, fromMs - 2 * history.facts.refreshMs - DISTURBED_MS, toMs);
  return all.length === 0 || all.some((one) => one.version === undefined || !opens(history, one));
}

/** The open models of a process keep to the memory, are there once each, and run until they are closed. */
export const sessionsHeld: Invariant = ({ named }) =>
  named.faults.map(({ invariant, text, atMs }) => ({ invariant, text, atMs, about: [] }));
