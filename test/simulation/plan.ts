/** Draws a history from a seed: settings of the deployment, what its clients do, and what goes wrong. */

import { withCanaries } from './canaries/draw.ts';
import type { Way } from './history.ts';
import { Choices } from './machine/random.ts';
import type { Kind } from './models/inference.ts';
import { drawNamed, withNamed } from './named/draw.ts';
import type { Plan, Settings, Step, TroubleStep } from './steps.ts';

const MINUTE = 60_000;

function settingsOf(choices: Choices): Settings {
  const pick = <T>(items: readonly T[]) => choices.pick('settings', items);
  const timeoutSeconds = pick([6, 10, 30]);
  return {
    timeoutSeconds,
    rowsOfRun: pick([1, 4, 32]),
    eventSize: pick([1, 4, 10]),
    environments: pick([1, 2, 3]),
    maxReceiveCount: pick([3, 5]),
    redriveAfter: pick([1_000, 1_000, 1_000, 8]),
    refreshSeconds: pick([5, 30]),
    sharesRuns: pick([true, false]),
    openMs: pick([20, 60, 300]),
    runMs: pick([1, 5, 40]),
    childStartMs: pick([300, 300, 600, timeoutSeconds * 1_300]),
    clients: pick([1, 2, 3]),
    hasBridge: choices.chance('settings', 0.15),
    tailMs: pick([1, 20, 80]),
    captures: choices.chance('captures', 0.5),
    notifies: choices.chance('notices', 0.5),
    takesFiles: choices.chance('files', 0.3),
    receiverFails: choices.pick('notices', [0, 0.1, 0.5, 0.9]),
    named: drawNamed(choices),
  };
}

export function drawPlan(seed: number): Plan {
  const choices = new Choices(seed);
  const settings = settingsOf(choices);
  const minutes = settings.hasBridge
    ? choices.between('length', 1, 3)
    : choices.pick('length', [
        choices.between('length', 3, 20),
        choices.between('length', 20, 90),
        choices.between('length', 90, 480),
      ]);
  const endMs = minutes * MINUTE;
  const bursts = Array.from({ length: choices.whole('bursts', 1, 6) }, () =>
    choices.between('burst', 0, endMs * 0.9),
  );
  const draft = new Draft(choices, settings, endMs);
  for (const atMs of bursts) draft.burst(atMs);
  for (let count = choices.whole('predict', 0, 10); count > 0; count--)
    draft.predict(choices.between('predict', 0, endMs));
  draft.changes();
  for (let count = choices.whole('trouble', 0, 7); count > 0; count--) draft.trouble(bursts);
  if (settings.notifies) draft.notifierEnds();
  if (settings.takesFiles) draft.files(bursts);
  const own = withCanaries({ choices, settings, endMs, steps: draft.steps });
  const steps = withNamed({ choices, settings, endMs, steps: own });
  return { seed, settings, endMs, steps: steps.toSorted((a, b) => a.atMs - b.atMs) };
}

class Draft {
  readonly steps: Step[] = [];
  readonly #choices: Choices;
  readonly #settings: Settings;
  readonly #endMs: number;
  readonly #poison: number;
  readonly #ways: readonly Way[];
  readonly #uris: number;
  #number = 0;
  #versions = 1;

  constructor(choices: Choices, settings: Settings, endMs: number) {
    this.#choices = choices;
    this.#settings = settings;
    this.#endMs = endMs;
    this.#poison = choices.pick('poison', [0, 0, 0.05, 0.2]);
    this.#ways = settings.hasBridge ? ['stream', 'stream', 'sqs'] : ['sqs', 'sqs', 'https'];
    this.#uris = choices.whole('uris', 1, 8);
  }

  /** Records that come together, and who asks for them. */
  burst(fromMs: number): void {
    const choices = this.#choices;
    const lengthMs = choices.pick('burst', [50, 2_000, 30_000]);
    for (let count = choices.whole('burst', 2, 14); count > 0; count--)
      this.#enqueue(fromMs + choices.between('burst', 0, lengthMs));
  }

  #enqueue(atMs: number): void {
    const choices = this.#choices;
    const uri = `uri-${choices.whole('uri', 1, this.#uris)}`;
    const client = choices.whole('client', 1, this.#settings.clients);
    const isPoison = choices.chance('poison', this.#poison);
    const what: Kind = isPoison ? choices.pick('poison', ['fails', 'crashes', 'endless', 'slow']) : 'good';
    const way = choices.pick('way', this.#ways);
    this.#add({
      atMs,
      kind: 'enqueue',
      client,
      uri,
      number: ++this.#number,
      what,
      way,
      notifies: this.#settings.notifies && way !== 'stream' && choices.chance('notices', 0.5),
    });
    if (choices.chance('read', 0.6))
      this.#add(
        readOf(
          choices,
          this.#settings,
          uri,
          atMs + choices.between('read', 0, choices.pick('read', [150, 20_000])),
        ),
      );
  }

  predict(atMs: number): void {
    const client = this.#choices.whole('client', 1, this.#settings.clients);
    this.#add({ atMs, kind: 'predict', client, number: 100_000 + ++this.#number });
  }

  changes(): void {
    const choices = this.#choices;
    for (let count = choices.whole('versions', 0, 4); count > 0; count--)
      this.#publish(choices.between('versions', 0, this.#endMs));
    if (this.#versions > 1 && choices.chance('versions', 0.4))
      this.#add({ atMs: choices.between('versions', this.#endMs / 2, this.#endMs), kind: 'rollback' });
    if (choices.chance('deploy', 0.3))
      this.#add({ atMs: choices.between('deploy', 0, this.#endMs), kind: 'deploy', ttlSeconds: 90_000 });
  }

  #publish(atMs: number): void {
    this.#add({ atMs, kind: 'publish', version: ++this.#versions });
  }

  /** Most troubles meet records, and the deployment is used and changed after them. */
  trouble(bursts: readonly number[]): void {
    const choices = this.#choices;
    const isMet = choices.chance('trouble', 0.7);
    const atMs = isMet
      ? choices.pick('trouble', bursts) + choices.between('trouble', -500, 3_000)
      : choices.between('trouble', 0, this.#endMs);
    const step = drawTrouble(choices, this.#settings, Math.max(0, atMs), this.#endMs);
    if (!step) return;
    this.#add(step);
    if (choices.chance('trouble', 0.3)) this.#publish(atMs + choices.between('trouble', 0, MINUTE));
    for (let count = choices.whole('trouble', 0, 4); count > 0; count--) {
      const laterMs = atMs + choices.between('trouble', 0, choices.pick('trouble', [3_000, 20 * MINUTE]));
      if (choices.chance('trouble', 0.5)) this.predict(laterMs);
      else this.#enqueue(laterMs);
    }
  }

  notifierEnds(): void {
    const choices = this.#choices;
    for (let count = choices.whole('notices', 0, 2); count > 0; count--)
      this.#add({
        atMs: choices.between('notices', 0, this.#endMs),
        kind: choices.pick('notices', ['kill', 'kill', 'reap']),
        program: 'notifier',
        afterMs: choices.between('notices', 0, 500),
      });
  }

  /** Most of them run while records do, so that the same troubles meet them. */
  files(bursts: readonly number[]): void {
    const choices = this.#choices;
    for (let count = choices.whole('files', 1, 3); count > 0; count--) {
      const atMs = choices.pick('files', bursts) + choices.between('files', 0, 5_000);
      const rows = Array.from({ length: choices.whole('files', 1, 4) }, () =>
        choices.pick('files', [0, 1, 7, 60, 600]),
      );
      this.#add({ atMs, kind: 'files', rows });
      for (let kills = choices.whole('files', 0, 3); kills > 0; kills--)
        this.#add({
          atMs: atMs + choices.between('files', 0, choices.pick('files', [3_000, MINUTE])),
          kind: choices.pick('files', ['kill', 'kill', 'reap']),
          program: 'jobs',
          afterMs: choices.between('files', 0, 1_500),
        });
      if (choices.chance('files', 0.4))
        this.#add({ atMs, kind: 'delivery', twice: 0.5, lostDelete: 0.3, delayMs: 3_000, forMs: MINUTE });
    }
  }

  #add(step: Step): void {
    if (step.atMs <= this.#endMs) this.steps.push(step);
  }
}

function readOf(choices: Choices, { clients }: Settings, uri: string, atMs: number): Step {
  const kind = choices.pick('read', [
    'query',
    'query',
    'wait',
    'wait',
    'take',
    'status',
    'cancel',
    'dequeue',
  ] as const);
  const [client, isHttps] = [choices.whole('client', 1, clients), choices.chance('read', 0.4)];
  if (kind === 'cancel' || kind === 'dequeue' || kind === 'status')
    return { atMs, kind, client, uri, isHttps };
  return { atMs, kind, client, uri, isOwn: choices.chance('read', 0.6), isHttps };
}

const TROUBLES = [
  'redis',
  'network',
  'service',
  'delivery',
  'kill',
  'kill',
  'reap',
  'forget',
  'clock',
  'bridge',
] as const;

function drawTrouble(
  choices: Choices,
  settings: Settings,
  atMs: number,
  endMs: number,
): TroubleStep | undefined {
  const pick = <T>(items: readonly T[]) => choices.pick('trouble', items);
  const kind = pick(TROUBLES);
  const forMs = Math.min(endMs / 2, pick([500, 5_000, MINUTE, 20 * MINUTE]));
  switch (kind) {
    case 'redis':
      return { atMs, kind, how: pick(['refused', 'silent', 'reset', 'restart']), forMs };
    case 'network':
      return { atMs, kind, slowMs: pick([30, 200, 600]), forMs };
    case 'service': {
      const service = pick(['s3', 'sqs'] as const);
      const ways = ['lost', 'refused', 'errors', 'unanswered'] as const;
      const how = pick(service === 'sqs' ? ([...ways, 'partial'] as const) : ways);
      return { atMs, kind, service, how, share: pick([0.1, 0.5, 1]), forMs };
    }
    case 'delivery':
      return {
        atMs,
        kind,
        twice: pick([0, 0.2, 0.6]),
        lostDelete: pick([0, 0.3]),
        delayMs: pick([0, 3_000, MINUTE]),
        forMs,
      };
    case 'kill':
    case 'reap':
      return {
        atMs,
        kind,
        program: pick(['batch', 'batch', 'predict', 'predictions']),
        afterMs: choices.between('trouble', 0, 60),
      };
    case 'forget':
      return { atMs, kind };
    case 'clock':
      return { atMs, kind, jumpMs: pick([-3_600_000, -3_600_000, -20_000, -900, 700, 3_600_000]) };
    default:
      return settings.hasBridge ? { atMs, kind, downMs: choices.between('trouble', 10, 20_000) } : undefined;
  }
}
