/** The invariants of every history, as functions of its facts. A new capability adds its own here. */
import {
  badCanaryEnds,
  endedForReason,
  keyKeepsSide,
  noThirdVersion,
  onePointer,
} from './canaries/invariants.ts';
import type { Answer, EnqueueFact, History, OutcomeFact } from './history.ts';
import { placeOf } from './models/inference.ts';
import { costsItsOwn, isRightFor, namedVersions, sessionsHeld, unknownNotFound } from './named/invariants.ts';
import { answerText } from './stage.ts';
import type { Invariant, Violation } from './violation.ts';

/** An answer that belongs to no record. */
const NO_ANSWER: Answer = { number: -1, version: -1, place: 0 };

/** True if a caller could know that one was enqueued before the other. */
function isBefore(one: EnqueueFact, other: EnqueueFact): boolean {
  if ((one.way === 'stream') !== (other.way === 'stream')) return false;
  return one.isAccepted && one.endedMs !== undefined && one.endedMs < other.calledMs;
}

/** One outcome per identity: Redis announces no enqueue twice. */
export const oneOutcomePerIdentity: Invariant = ({ outcomes }) => {
  const known = new Map<string, number>();
  return outcomes.flatMap(({ identity, uri, atMs }) => {
    if (identity === '') return [];
    const count = (known.get(identity) ?? 0) + 1;
    known.set(identity, count);
    if (count !== 2) return [];
    return [
      {
        invariant: 'one outcome per identity',
        text: `the enqueue ${identity} of ${uri} has a second outcome`,
        atMs,
        about: [uri],
      },
    ];
  });
};

/** An outcome never replaces that of a later enqueue, and the last one is never that of an earlier enqueue. */
export const lastEnqueueWins: Invariant = (history) => {
  const violations: Violation[] = [];
  for (const [uri, outcomes] of Map.groupBy(history.outcomes, (one) => one.uri)) {
    const answered: EnqueueFact[] = [];
    for (const { identity, atMs } of outcomes) {
      const enqueue = history.enqueueOf(identity);
      if (!enqueue) continue;
      const later = answered.find((other) => isBefore(enqueue, other));
      if (later) {
        const text = `record ${enqueue.number} of ${uri} has its outcome after that of record ${later.number}, which was enqueued later`;
        violations.push({ invariant: 'last enqueue wins', text, atMs, about: [uri] });
      }
      answered.push(enqueue);
    }
  }
  return violations;
};

/** The old client may not get the id of its entry, whose answer still shows the record. */
function enqueueWith(
  history: History,
  { identity, uri, answer }: Pick<OutcomeFact, 'identity' | 'uri' | 'answer'>,
): EnqueueFact | undefined {
  const isUnknown = (one: EnqueueFact) =>
    one.identity === undefined && one.uri === uri && one.number === answer?.number;
  return history.enqueueOf(identity) ?? history.enqueues.find(isUnknown);
}

/** Every accepted enqueue has an outcome, or one that was enqueued later, or at the same time, has. */
export const nothingLost: Invariant = (history) => {
  return history.enqueues.flatMap((enqueue) => {
    const { uri, number, isAccepted, calledMs } = enqueue;
    if (!isAccepted) return [];
    // A cancellation is the outcome of what was enqueued until then.
    if (history.cancels.some((cancel) => cancel.uri === uri && cancel.endedMs >= calledMs)) return [];
    const answered = history.outcomes.filter((one) => one.uri === uri);
    const isAnswered = answered.some((outcome) => {
      const other = enqueueWith(history, outcome);
      return other !== undefined && (other === enqueue || !isBefore(other, enqueue));
    });
    if (isAnswered) return [];
    return [
      {
        invariant: 'nothing is lost',
        text: `record ${number} of ${uri} was accepted and has no outcome`,
        atMs: history.facts.endMs,
        about: [uri],
      },
    ];
  });
};

/** Every answer is that of the record for which it was asked, and of the model that it names. */
export const noForeignAnswer: Invariant = (history) => {
  const violations: Violation[] = [];
  const check = (uri: string, identity: string, answer: Answer | undefined, atMs: number, where: string) => {
    if (!answer) return;
    const enqueue = enqueueWith(history, { uri, identity, answer });
    const { number, place } = answer;
    if (enqueue && place !== placeOf(enqueue.model)) {
      const text = `${where} has an answer of model ${place} for record ${enqueue.number} of ${uri}, which names ${enqueue.model ?? 'none'}`;
      violations.push({ invariant: 'no foreign answer', text, atMs, about: [uri] });
      return;
    }
    if (enqueue?.uri === uri && enqueue.number === number) return;
    const text = `${where} has the answer of record ${number} for record ${enqueue?.number ?? '(unknown)'} of ${uri}`;
    violations.push({ invariant: 'no foreign answer', text, atMs, about: [uri] });
  };
  for (const { uri, identity, answer, atMs } of history.outcomes) check(uri, identity, answer, atMs, 'Redis');
  for (const { uri, got, asked, endedMs, client } of history.reads) {
    if (got.kind !== 'result') continue;
    check(uri, got.identity, got.answer ?? NO_ANSWER, endedMs, client);
    if (asked !== undefined && asked !== got.identity)
      violations.push({
        invariant: 'no foreign answer',
        text: `${client} asked for one enqueue of ${uri} and got another's result`,
        atMs: endedMs,
        about: [uri],
      });
  }
  for (const { number, named, answer, endedMs, client } of history.predictions) {
    if (answer?.number !== number || answer.place !== placeOf(named))
      violations.push({
        invariant: 'no foreign answer',
        text: `${client} predicted record ${number} of ${named ?? "the job's own model"} and got the answer ${answerText(answer)}`,
        atMs: endedMs,
        about: [],
      });
  }
  return violations;
};

/** A good record succeeds, and one that cannot, or whose version cannot, fails with an error that says so. */
export const rightStatus: Invariant = (history) => {
  return history.outcomes.flatMap((outcome) => {
    const { uri, identity, status, code, atMs } = outcome;
    const enqueue = history.enqueueOf(identity);
    if (!enqueue || status === 'cancelled') return [];
    const { kind, number, model } = enqueue;
    if (!history.facts.isPatient && code === 'max_receives_exceeded') return [];
    const isRight =
      model === undefined ? isRightForOwn(history, enqueue, outcome) : isRightFor(history, enqueue, outcome);
    if (isRight) return [];
    const got = status === 'succeeded' ? 'succeeded' : `failed with ${code}`;
    const of = model === undefined ? '' : ` for ${model}`;
    const text = `record ${number} of ${uri} (${kind}${of}) ${got}`;
    return [{ invariant: 'right status', text, atMs, about: [uri] }];
  });
};

function isRightForOwn(
  { canaries }: History,
  { kind }: EnqueueFact,
  { status, code, model: version }: OutcomeFact,
): boolean {
  return (kind === 'good' || kind === 'slow') && !canaries.isFlawed(version)
    ? status === 'succeeded'
    : ['model_failed', 'max_receives_exceeded'].includes(code ?? '');
}

/** Each result of the job's own model names the version that made it, and that version served, or had a share, not long before. */
export const versionsNamed: Invariant = (history) => {
  const violations: Violation[] = [];
  const { refreshMs, timeoutMs } = history.facts;
  const patienceMs = 2 * refreshMs + timeoutMs + 5_000;
  const check = (
    model: string,
    version: number | undefined,
    atMs: number,
    what: string,
    about: readonly string[],
  ) => {
    if (version === undefined) return;
    if (history.versionOf(model) !== version) {
      const text = `${what} names version ${history.versionOf(model) ?? model} and was made by version ${version}`;
      violations.push({ invariant: 'versions are named', text, atMs, about });
      return;
    }
    const ends = replacedAt(history, model, atMs);
    if (ends === undefined || atMs - ends <= patienceMs) return;
    if (
      history.troubles.some(
        ({ what: whose, fromMs, toMs }) => whose !== 'clock' && fromMs <= atMs && toMs >= ends - patienceMs,
      )
    )
      return;
    const text = `${what} was made by version ${version}, ${Math.round((atMs - ends) / 1000)} s after the pointer named it last`;
    violations.push({ invariant: 'new versions serve', text, atMs, about });
  };
  for (const { model, answer, atMs, uri } of history.outcomes)
    if (answer?.place === 0) check(model, answer.version, atMs, `the result of ${uri}`, [uri]);
  for (const { model, answer, endedMs, number } of history.predictions)
    if (answer?.place === 0) check(model, answer.version, endedMs, `the prediction of ${number}`, []);
  return violations;
};

/** When the pointer no longer named the version; undefined if it does at this time. */
function replacedAt({ canaries }: History, model: string, atMs: number): number | undefined {
  const before = canaries.pointers.filter((one) => one.atMs <= atMs);
  const last = before.findLastIndex((one) => one.version === model || one.canary?.version === model);
  return before[last + 1]?.atMs;
}

/** One of two clients that take a result gets it. */
export const takenOnce: Invariant = ({ reads }) => {
  const takers = new Map<string, string>();
  return reads.flatMap(({ how, got, client, uri, endedMs }) => {
    if ((how !== 'take' && how !== 'dequeue') || got.kind !== 'result') return [];
    const before = takers.get(got.identity);
    takers.set(got.identity, client);
    if (before === undefined || before === client) return [];
    return [
      {
        invariant: 'a result is taken once',
        text: `${before} and ${client} both took the result of ${uri}`,
        atMs: endedMs,
        about: [uri],
      },
    ];
  });
};

/** Seven enqueues of a uri are listed as announced. */
const MOST_LISTED = 7;

/** An enqueue that was announced before a cancellation has no other outcome after it. */
export const cancelledStays: Invariant = (history) => {
  return history.cancels.flatMap(({ uri, answer, calledMs, endedMs }) => {
    if (answer !== 'true') return [];
    const before = history.enqueues.filter((one) => one.uri === uri && one.calledMs < endedMs);
    // Only a client that reaches Redis announces its records before it sends them.
    const announced = before.filter(
      (one) => one.way === 'sqs' && one.isAccepted && (one.endedMs ?? endedMs) < calledMs,
    );
    return announced.flatMap((one) => {
      const { identity, number } = one;
      const later = history.outcomes.find((other) => other.identity === identity && other.atMs > endedMs);
      if (!later || !isListed(history, one, before)) return [];
      const text = `record ${number} of ${uri} has the outcome ${later.status} after it was cancelled`;
      return [{ invariant: 'what is cancelled stays so', text, atMs: later.atMs, about: [uri] }];
    });
  });
};

/** False where as many may have been announced after it. The bridge announces an entry of the old client later than that adds it. */
function isListed({ outcomes }: History, one: EnqueueFact, all: readonly EnqueueFact[]): boolean {
  const isOver = ({ identity }: EnqueueFact) =>
    outcomes.some((outcome) => outcome.identity === identity && outcome.atMs < one.calledMs);
  const after = all.filter(
    (other) => other.calledMs > one.calledMs || (other.way === 'stream' && !isOver(other)),
  );
  return after.length < MOST_LISTED;
}

/** A client looks again after 5 s if it was not woken. */
const WOKEN_MS = 8_000;

/** Who waits for a result gets it. */
export const waitersWake: Invariant = (history) => {
  return history.reads.flatMap(({ how, asked, got, calledMs, endedMs, uri, client }) => {
    if (how !== 'wait' || asked === undefined || got.kind !== 'error' || got.code !== 'timeout') return [];
    const isTroubled = history.troubles.some(
      ({ what, fromMs, toMs }) => what !== 'clock' && fromMs <= endedMs && toMs + 30_000 >= calledMs,
    );
    const ofUri = history.outcomes.filter((one) => one.uri === uri && one.atMs <= endedMs);
    const last = ofUri.at(-1);
    const isTaken = history.reads.some(
      (one) => one.uri === uri && (one.how === 'take' || one.how === 'dequeue'),
    );
    if (isTroubled || isTaken || last?.identity !== asked || last.atMs > endedMs - WOKEN_MS) return [];
    const text = `${client} waited for ${uri} until its time was over, though the result was there`;
    return [{ invariant: 'who waits is woken', text, atMs: endedMs, about: [uri] }];
  });
};

/** At most two versions are open in a process, and what ends or occupies its process is not run without end. */
export const limitsHeld: Invariant = (history) => {
  const violations: Violation[] = [];
  for (const [process, open] of history.mostOpen) {
    if (open > 2)
      violations.push({
        invariant: 'limits hold',
        text: `${process} had ${open} versions open`,
        atMs: 0,
        about: [],
      });
  }
  const kills = history.kills.filter(({ how }) => how === 'SIGKILL' || how === 'reaped').length;
  // Together with others and alone in each delivery, and once in its first one.
  const most = 2 * (history.facts.maxReceiveCount + 2) + 2 * kills + 4;
  const runs = new Map<number, number>();
  for (const number of history.ran) runs.set(number, (runs.get(number) ?? 0) + 1);
  for (const { number, kind, uri } of history.enqueues) {
    const count = runs.get(number) ?? 0;
    if ((kind === 'crashes' || kind === 'endless') && count > most) {
      violations.push({
        invariant: 'limits hold',
        text: `record ${number} of ${uri} (${kind}) ran ${count} times`,
        atMs: 0,
        about: [uri],
      });
    }
  }
  return violations;
};

/** Lambda stops a process at its answer: nothing is under way then, unless it was given up at its time limit. */
export const nothingLeft: Invariant = (history) => {
  const leftBefore = new Map<string, readonly string[]>();
  return history.answers.flatMap(({ environment, left: all, leftMs, startedMs, atMs }) => {
    // A call that a trouble left there is still waited for when its environment continues.
    const left = all.filter((call) => !leftBefore.get(environment)?.includes(call));
    leftBefore.set(environment, all);
    const isTroubled = history.troubles.some(
      ({ what, fromMs, toMs }) => what !== 'clock' && fromMs <= atMs && toMs + 8_000 >= startedMs,
    );
    if (left.length === 0 || leftMs < 2_500 || isTroubled) return [];
    return [
      {
        invariant: 'nothing is left at an answer',
        text: `${environment} answers while ${left.join(', ')} is under way`,
        atMs,
        about: [],
      },
    ];
  });
};

/** No error ends a process but those that records are made for. */
export const nothingUncaught: Invariant = ({ uncaught }) =>
  uncaught.map(({ process, text, atMs }) => ({
    invariant: 'every error is caught',
    text: `${process}: ${text}`,
    atMs,
    about: [],
  }));

/** At the end the queue is empty, and every uri answers what Redis announced last, unless it was taken. */
export const endsClean: Invariant = (history) => {
  const violations: Violation[] = history.stuck.map((uri) => ({
    invariant: 'the queue empties',
    text: `a message of ${uri} is still in the queue`,
    atMs: history.facts.endMs,
    about: [uri],
  }));
  for (const { uri, got, endedMs } of history.reads.filter(({ how }) => how === 'final')) {
    const last = history.outcomes.findLast((one) => one.uri === uri);
    const isTaken = history.reads.some(
      (read) => read.uri === uri && (read.how === 'take' || read.how === 'dequeue'),
    );
    if (
      got.kind === 'nothing'
        ? !last || isTaken
        : got.kind === 'error'
          ? last?.code === got.code
          : last?.identity === got.identity
    )
      continue;
    const text = `at the end ${uri} has ${got.kind === 'result' ? 'another result' : got.kind === 'error' ? `the error ${got.code}` : 'no result'} than Redis announced`;
    violations.push({ invariant: 'results stay', text, atMs: endedMs, about: [uri] });
  }
  return violations;
};

/** The target of an accepted record is notified at least once, under one id. */
export const targetNotified: Invariant = (history) => {
  return history.enqueues.flatMap(({ uri, number, identity, isAccepted, notifies }) => {
    if (!notifies || !isAccepted) return [];
    const notices = history.notices.filter((one) => one.identity === identity);
    const ids = new Set(notices.map(({ id }) => id));
    const isForeign = notices.some((one) => one.uri !== uri);
    if (ids.size === 1 && !isForeign) return [];
    const problem = isForeign ? 'a notice of another uri' : `notices with ${ids.size} ids`;
    const text = `record ${number} of ${uri} names a target, which got ${problem}`;
    return [{ invariant: 'a target is notified', text, atMs: history.facts.endMs, about: [uri] }];
  });
};

function versionOf(history: History, name: string | undefined, version: string): number | undefined {
  if (name === undefined) return history.versionOf(version);
  const facts = history.named.versions.get(version);
  return facts?.model === name ? facts.version : undefined;
}

/** A captured answer is that of its record, by the version that its object names. */
export const capturedRight: Invariant = (history) =>
  history.captures.flatMap(({ id, named, model, number, answer }) => {
    const isRight =
      number === answer.number &&
      answer.place === placeOf(named) &&
      versionOf(history, named, model) === answer.version;
    if (isRight) return [];
    const text = `the capture of ${id} has record ${number ?? '(none)'} with the answer ${answer.number} of version ${answer.version}, below ${model}`;
    return [{ invariant: 'captures are right', text, atMs: history.facts.endMs, about: [] }];
  });

/** Each row of a file has its line, once and in order, with its own answer by the version that the line names. */
export const rowsAnswered: Invariant = (history) =>
  history.files.flatMap(({ id, expected, lines }) => {
    const rows = expected.flatMap(({ file, numbers }) =>
      numbers.map((number, i) => ({ file, row: i + 1, number })),
    );
    const wrong = (text: string) => [
      { invariant: 'rows are answered', text: `${id}: ${text}`, atMs: history.facts.endMs, about: [] },
    ];
    if (!lines) return wrong('it wrote no results');
    if (lines.length !== rows.length) return wrong(`${lines.length} lines for ${rows.length} rows`);
    return rows.flatMap(({ file, row, number }, i) => {
      const line = lines[i];
      if (line?.file !== file || line.row !== row)
        return wrong(`line ${i + 1} is row ${line?.row} of ${line?.file}, not row ${row} of ${file}`);
      if (line.answer === undefined)
        return line.error === undefined ? wrong(`row ${row} of ${file} has no answer`) : [];
      const isRight =
        line.answer.number === number && history.versionOf(line.model ?? '') === line.answer.version;
      return isRight
        ? []
        : wrong(`row ${row} of ${file}, ${number}, has the answer ${line.answer.number} of ${line.model}`);
    });
  });

export const INVARIANTS: readonly Invariant[] = [
  oneOutcomePerIdentity,
  lastEnqueueWins,
  nothingLost,
  targetNotified,
  noForeignAnswer,
  rightStatus,
  versionsNamed,
  noThirdVersion,
  keyKeepsSide,
  onePointer,
  badCanaryEnds,
  endedForReason,
  capturedRight,
  rowsAnswered,
  namedVersions,
  unknownNotFound,
  costsItsOwn,
  sessionsHeld,
  takenOnce,
  cancelledStays,
  waitersWake,
  limitsHeld,
  nothingLeft,
  nothingUncaught,
  endsClean,
];

export function judgeHistory(history: History): Violation[] {
  return INVARIANTS.flatMap((invariant) => invariant(history));
}
