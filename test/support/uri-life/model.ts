/**
 * The rules of the life of a uri, without Redis: a state, the possible next steps, and their results. Times are small
 * numbers; only their order has a meaning.
 */

/** A message in the queue. SQS may deliver it any number of times, and in any order; here it is delivered twice at most. */
export interface Sent {
  readonly identity: string;
  readonly sentAt: number;
  readonly replays: number;
  readonly deliveries: number;
}

/** An enqueue as far as the order goes. A cancellation has the identity `~`, which no sender can use. */
export type Place = Pick<Sent, 'identity' | 'sentAt' | 'replays'>;

export interface Outcome extends Place {
  readonly kind: 'succeeded' | 'failed' | 'cancelled';
}

export interface UriState {
  readonly messages: readonly Sent[];
  /** Identities that were announced and have no outcome, the last announced first. */
  readonly announced: readonly string[];
  /** The latest enqueue, or cancellation, that had an outcome. */
  readonly newest: Place | undefined;
  /** Identities that had their outcome before it, or were cancelled, the latest first. */
  readonly settled: readonly string[];
  /** The result of `query`. */
  readonly visible: Outcome | undefined;
  /** For a cancellation: the enqueues that it cancelled, and the newest before. */
  readonly cancelled: readonly string[];
  readonly after: Place | undefined;
  /** Taken, and not acknowledged yet. */
  readonly leased: Outcome | undefined;
  /** Records in the dead-letter archive, as they were sent. */
  readonly archived: readonly Place[];
  /** Results given to a client for good, as `identity.replays`. */
  readonly given: readonly string[];
}

export const START: UriState = {
  messages: [],
  announced: [],
  newest: undefined,
  settled: [],
  visible: undefined,
  cancelled: [],
  after: undefined,
  leased: undefined,
  archived: [],
  given: [],
};

export type Action =
  | { readonly do: 'enqueue'; readonly identity: string; readonly sentAt: number; readonly announce: boolean }
  /** The sender tries again, under the same identity. */
  | { readonly do: 'retry'; readonly identity: string; readonly sentAt: number }
  /** The batch function gives it a result, or the dead-letter function its failure. */
  | { readonly do: 'succeed' | 'fail'; readonly message: number }
  | { readonly do: 'take'; readonly identity: string | undefined }
  | { readonly do: 'lease' }
  | { readonly do: 'acknowledge' }
  | { readonly do: 'release' }
  | { readonly do: 'cancel' }
  /** The result's time to live passes, or an old Python client deletes its key: the same to Redis. */
  | { readonly do: 'vanish' }
  /** `dlq replay`, and `dlq replay --enqueue`. */
  | { readonly do: 'replay'; readonly archived: number }
  | { readonly do: 'resend'; readonly archived: number; readonly announce: boolean };

/** The action's result for its caller, beside the next state. */
export interface Step {
  readonly state: UriState;
  /** The answer of a cancellation, a take (identity and kind, or undefined), a save or a replay. */
  readonly answer: unknown;
  /** How often waiting clients are notified. */
  readonly notified: number;
}

export function isLater(one: Place, other: Place | undefined): boolean {
  if (!other) return true;
  if (one.identity === other.identity) return one.replays > other.replays;
  return one.sentAt === other.sentAt ? one.identity > other.identity : one.sentAt > other.sentAt;
}

/** Everything that may happen in a state. */
export function actionsOf(state: UriState): Action[] {
  const { messages, archived } = state;
  const later = 1 + Math.max(0, state.newest?.sentAt ?? 0, ...messages.map(({ sentAt }) => sentAt));
  const last = messages.findLast(({ replays }) => replays === 0);
  const count = new Set(messages.map(({ identity }) => identity)).size;
  const actions: Action[] = [
    { do: 'enqueue', identity: `m${count}`, sentAt: later, announce: true },
    { do: 'enqueue', identity: `m${count}`, sentAt: later, announce: false },
    { do: 'take', identity: undefined },
    { do: 'cancel' },
  ];
  if (last) {
    // In the millisecond of the last one, and with a smaller identity.
    actions.push({ do: 'enqueue', identity: `k${count}`, sentAt: last.sentAt, announce: true });
    actions.push({ do: 'retry', identity: last.identity, sentAt: later });
    actions.push({ do: 'take', identity: last.identity });
  }
  for (const [message, { deliveries }] of messages.entries()) {
    if (deliveries < 2) actions.push({ do: 'succeed', message }, { do: 'fail', message });
  }
  if (state.visible) actions.push({ do: 'vanish' });
  actions.push(state.leased ? { do: 'acknowledge' } : { do: 'lease' });
  if (state.leased) actions.push({ do: 'release' });
  for (const i of archived.keys()) {
    actions.push({ do: 'replay', archived: i }, { do: 'resend', archived: i, announce: true });
    actions.push({ do: 'resend', archived: i, announce: false });
  }
  return actions;
}

export function step(state: UriState, action: Action): Step {
  switch (action.do) {
    case 'enqueue':
      return enqueued(state, { ...action, replays: 0 }, action.announce);
    case 'retry':
      return enqueued(state, { ...action, replays: 0 }, false);
    case 'succeed':
    case 'fail':
      return delivered(state, action);
    case 'take':
      return taken(state, action.identity, false);
    case 'lease':
      return taken(state, undefined, true);
    case 'acknowledge':
      return quiet({ ...state, leased: undefined, given: [...state.given, nameOf(state.leased as Outcome)] });
    case 'release':
      return released(state);
    case 'cancel':
      return cancelled(state);
    case 'vanish':
      return quiet({ ...state, visible: undefined, cancelled: [], after: undefined });
    case 'replay':
      return replayed(state, state.archived[action.archived] as Place);
    case 'resend':
      return resent(state, state.archived[action.archived] as Place, action.announce);
  }
}

const quiet = (state: UriState, answer?: unknown): Step => ({ state, answer, notified: 0 });
export const nameOf = ({ identity, replays }: Place): string => `${identity}.${replays}`;
const placeOf = ({ identity, sentAt, replays }: Place): Place => ({ identity, sentAt, replays });

function enqueued(state: UriState, sent: Place, announce: boolean): Step {
  const messages = [...state.messages, { ...placeOf(sent), deliveries: 0 }];
  return quiet({ ...state, messages, announced: announce ? announcedFirst(state, sent) : state.announced });
}

function announcedFirst({ announced }: UriState, { identity }: Place): string[] {
  return [identity, ...announced.filter((one) => one !== identity)];
}

/**
 * An announcement after a cancellation is later than it, regardless of the times; a cancellation ends all
 * announcements.
 */
function isLatest(state: UriState, place: Place): boolean {
  const { newest, announced } = state;
  return isLater(place, newest) || (newest?.identity === '~' && announced.includes(place.identity));
}

/** An outcome counts when nothing later had one; the record has its outcome either way. */
function delivered(state: UriState, action: Extract<Action, { message: number }>): Step {
  const message = state.messages[action.message] as Sent;
  const place = placeOf(message);
  const isFirst = message.deliveries === 0;
  const base: UriState = {
    ...state,
    messages: state.messages.with(action.message, { ...message, deliveries: message.deliveries + 1 }),
    announced: state.announced.filter((one) => one !== message.identity),
    archived: action.do === 'fail' && isFirst ? [...state.archived, place] : state.archived,
  };
  const isSettled = state.settled.includes(place.identity);
  if (isLatest(state, place) && !isSettled) {
    const kind = action.do === 'fail' ? 'failed' : 'succeeded';
    const visible: Outcome = { ...place, kind };
    return {
      state: {
        ...base,
        newest: place,
        settled: settledBefore(state, place),
        visible,
        cancelled: [],
        after: undefined,
      },
      answer: 1,
      notified: 1,
    };
  }
  const { newest } = state;
  if (newest && nameOf(newest) === nameOf(place)) {
    // A retry is the same enqueue, but nothing that was sent before it is later.
    const sentAt = Math.max(newest.sentAt, place.sentAt);
    return quiet({ ...base, newest: { ...newest, sentAt } }, 0);
  }
  const isCancelled = state.visible?.kind === 'cancelled' && !isSettled && isLater(place, state.after);
  if (!isCancelled) return quiet(base, 0);
  const listed = (list: readonly string[]) => [place.identity, ...list];
  return quiet({ ...base, cancelled: listed(state.cancelled), settled: listed(state.settled) }, 0);
}

/** The settled identities after an outcome of this enqueue, or a cancellation. */
function settledBefore({ newest, settled }: UriState, { identity }: Place): readonly string[] {
  const before = newest === undefined || [identity, '~'].includes(newest.identity) ? [] : [newest.identity];
  return [...before, ...settled];
}

/** A cancellation stays. */
function taken(state: UriState, wanted: string | undefined, keep: boolean): Step {
  const { visible } = state;
  const names = visible?.kind === 'cancelled' ? state.cancelled : [visible?.identity];
  if (!visible || (wanted !== undefined && !names.includes(wanted))) return quiet(state);
  const answer = { identity: visible.kind === 'cancelled' ? '' : visible.identity, kind: visible.kind };
  if (visible.kind === 'cancelled') return quiet(state, answer);
  const next = { ...state, visible: undefined };
  if (keep) return quiet({ ...next, leased: visible }, answer);
  return quiet({ ...next, given: [...state.given, nameOf(visible)] }, answer);
}

function released(state: UriState): Step {
  const leased = state.leased as Outcome;
  const isNewest = state.newest !== undefined && nameOf(state.newest) === nameOf(leased);
  const goesBack = isNewest && state.visible === undefined;
  return quiet({ ...state, leased: undefined, visible: goesBack ? leased : state.visible });
}

function cancelled(state: UriState): Step {
  const { newest, visible, announced } = state;
  if (announced.length === 0 && visible?.kind === 'cancelled') return quiet(state, true);
  if (announced.length === 0 && newest) return quiet(state, false);
  const sentAt = 1 + Math.max(0, newest?.sentAt ?? 0, ...state.messages.map((message) => message.sentAt));
  const place = { identity: '~', sentAt, replays: 0 };
  return {
    state: {
      ...state,
      newest: place,
      visible: { ...place, kind: 'cancelled' },
      settled: unique([...announced, ...settledBefore(state, place)]),
      // Those of an earlier cancellation stay cancelled.
      cancelled: [...announced, ...state.cancelled.filter((one) => !announced.includes(one))],
      after: newest,
      announced: [],
    },
    answer: true,
    notified: 1,
  };
}

const unique = (list: readonly string[]) => [...new Set(list)];

/** The finding of a replay: its own failure, its own result, or another's. */
function verdict(
  { newest, settled, visible, announced }: UriState,
  replay: Place,
): 'replaced' | 'superseded' | 'conflict' {
  if (!isLater(replay, newest) || settled.includes(replay.identity)) {
    return newest?.identity === replay.identity || visible?.kind === 'cancelled' ? 'superseded' : 'conflict';
  }
  // Another record was announced, which the replay would hide until it has its outcome.
  if (!visible) return announced.some((identity) => identity !== replay.identity) ? 'conflict' : 'replaced';
  if (visible.identity !== replay.identity) return 'replaced';
  return visible.kind === 'failed' ? 'replaced' : 'superseded';
}

function replayed(state: UriState, archived: Place): Step {
  const replay = { ...archived, replays: archived.replays + 1 };
  const answer = verdict(state, replay);
  if (answer !== 'replaced') return quiet(state, answer);
  const visible: Outcome = { ...replay, kind: 'succeeded' };
  const announced = state.announced.filter((identity) => identity !== replay.identity);
  const settled = settledBefore(state, replay);
  const next = { ...state, newest: replay, settled, visible, announced, cancelled: [], after: undefined };
  return { state: next, answer, notified: 1 };
}

function resent(state: UriState, archived: Place, announce: boolean): Step {
  const replay = { ...archived, replays: archived.replays + 1 };
  if (!announce) return enqueued(state, replay, false);
  const answer = verdict(state, replay);
  if (answer !== 'replaced') return quiet(state, answer);
  const { visible } = state;
  const next = { ...state, visible: visible?.identity === replay.identity ? undefined : visible };
  return { ...enqueued(next, replay, true), answer };
}
