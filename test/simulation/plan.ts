/** Draws a history from a seed: settings of the deployment, what its clients do, and what goes wrong. */
import { Choices } from './machine/random.ts';
import type { Kind } from './models/inference.ts';
import type { Way } from './history.ts';

export interface Settings {
  readonly timeoutSeconds: number;
  readonly rowsOfRun: number;
  readonly eventSize: number;
  readonly environments: number;
  readonly maxReceiveCount: number;
  readonly refreshSeconds: number;
  readonly sharesRuns: boolean;
  readonly openMs: number;
  readonly runMs: number;
  readonly childStartMs: number;
  readonly clients: number;
  readonly hasBridge: boolean;
  /** The longest delay of the network, which few bytes have. */
  readonly tailMs: number;
}

type Timed<T> = T & { readonly atMs: number };

export type Step = Timed<
  | { readonly kind: 'enqueue'; readonly client: number; readonly uri: string; readonly number: number; readonly what: Kind; readonly way: Way }
  | { readonly kind: 'query' | 'wait' | 'take' | 'status'; readonly client: number; readonly uri: string; readonly isOwn: boolean; readonly isHttps: boolean }
  | { readonly kind: 'cancel' | 'dequeue'; readonly client: number; readonly uri: string; readonly isHttps: boolean }
  | { readonly kind: 'predict'; readonly client: number; readonly number: number }
  | { readonly kind: 'publish'; readonly version: number }
  | { readonly kind: 'rollback' }
  | { readonly kind: 'redis'; readonly how: 'refused' | 'silent' | 'reset' | 'restart'; readonly forMs: number }
  | { readonly kind: 'network'; readonly slowMs: number; readonly forMs: number }
  | { readonly kind: 'service'; readonly service: 's3' | 'sqs'; readonly how: 'lost' | 'refused' | 'errors' | 'unanswered' | 'partial'; readonly share: number; readonly forMs: number }
  | { readonly kind: 'delivery'; readonly twice: number; readonly lostDelete: number; readonly delayMs: number; readonly forMs: number }
  | { readonly kind: 'kill' | 'reap'; readonly program: string }
  | { readonly kind: 'forget' }
  | { readonly kind: 'clock'; readonly jumpMs: number }
  | { readonly kind: 'deploy'; readonly ttlSeconds: number }
  | { readonly kind: 'bridge'; readonly downMs: number }
>;

export interface Plan {
  readonly seed: number;
  readonly settings: Settings;
  /** Nothing more begins after this time. */
  readonly endMs: number;
  readonly steps: readonly Step[];
}

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
    refreshSeconds: pick([5, 30]),
    sharesRuns: pick([true, false]),
    openMs: pick([20, 60, 300]),
    runMs: pick([1, 5, 40]),
    childStartMs: pick([300, 300, 600, timeoutSeconds * 1_300]),
    clients: pick([1, 2, 3]),
    hasBridge: choices.chance('settings', 0.25),
    tailMs: pick([1, 20, 80]),
  };
}


export function drawPlan(seed: number): Plan {
  const choices = new Choices(seed);
  const settings = settingsOf(choices);
  const minutes = settings.hasBridge
    ? choices.between('length', 1, 3)
    : choices.pick('length', [choices.between('length', 3, 20), choices.between('length', 20, 90), choices.between('length', 90, 480)]);
  const endMs = minutes * MINUTE;
  const steps = [...callsOf(choices, settings, endMs), ...changesOf(choices, endMs), ...troublesOf(choices, settings, endMs)];
  steps.sort((a, b) => a.atMs - b.atMs);
  return { seed, settings, endMs, steps };
}

/** Records come in bursts. */
function callsOf(choices: Choices, settings: Settings, endMs: number): Step[] {
  const steps: Step[] = [];
  const poison = choices.pick('poison', [0, 0, 0.05, 0.2]);
  const ways: readonly Way[] = settings.hasBridge ? ['stream', 'stream', 'sqs'] : ['sqs', 'sqs', 'https'];
  const uris = choices.whole('uris', 1, 8);
  const bursts = choices.whole('bursts', 1, 6);
  let number = 0;
  for (let burst = 0; burst < bursts; burst++) {
    const from = choices.between('burst', 0, endMs * 0.95);
    const lengthMs = choices.pick('burst', [50, 2_000, 30_000]);
    for (let count = choices.whole('burst', 2, 14); count > 0; count--) {
      const atMs = from + choices.between('burst', 0, lengthMs);
      const uri = `uri-${choices.whole('uri', 1, uris)}`;
      const client = choices.whole('client', 1, settings.clients);
      const what: Kind = choices.chance('poison', poison) ? choices.pick('poison', ['fails', 'crashes', 'endless', 'slow']) : 'good';
      steps.push({ atMs, kind: 'enqueue', client, uri, number: ++number, what, way: choices.pick('way', ways) });
      if (choices.chance('read', 0.6)) steps.push(readOf(choices, settings, uri, atMs + choices.between('read', 0, 20_000)));
    }
  }
  for (let count = choices.whole('predict', 0, 10); count > 0; count--) {
    const client = choices.whole('client', 1, settings.clients);
    steps.push({ atMs: choices.between('predict', 0, endMs), kind: 'predict', client, number: 100_000 + ++number });
  }
  return steps;
}

function readOf(choices: Choices, { clients }: Settings, uri: string, atMs: number): Step {
  const kind = choices.pick('read', ['query', 'query', 'wait', 'wait', 'take', 'status', 'cancel', 'dequeue'] as const);
  const [client, isHttps] = [choices.whole('client', 1, clients), choices.chance('read', 0.4)];
  if (kind === 'cancel' || kind === 'dequeue') return { atMs, kind, client, uri, isHttps };
  return { atMs, kind, client, uri, isOwn: choices.chance('read', 0.6), isHttps };
}

function changesOf(choices: Choices, endMs: number): Step[] {
  const steps: Step[] = [];
  const versions = choices.whole('versions', 0, 4);
  for (let version = 2; version < 2 + versions; version++)
    steps.push({ atMs: choices.between('versions', 0, endMs), kind: 'publish', version });
  if (versions > 0 && choices.chance('versions', 0.4))
    steps.push({ atMs: choices.between('versions', endMs / 2, endMs), kind: 'rollback' });
  if (choices.chance('deploy', 0.3))
    steps.push({ atMs: choices.between('deploy', 0, endMs), kind: 'deploy', ttlSeconds: 90_000 });
  return steps;
}

function troublesOf(choices: Choices, settings: Settings, endMs: number): Step[] {
  const steps: Step[] = [];
  const at = () => choices.between('trouble', 0, endMs);
  const forMs = () => Math.min(endMs / 2, choices.pick('trouble', [500, 5_000, 60_000, 20 * MINUTE]));
  const kinds = ['redis', 'network', 'service', 'delivery', 'kill', 'reap', 'forget', 'clock', 'bridge'] as const;
  for (let count = choices.whole('trouble', 0, 7); count > 0; count--) {
    const kind = choices.pick('trouble', kinds);
    const atMs = at();
    if (kind === 'redis')
      steps.push({ atMs, kind, how: choices.pick('trouble', ['refused', 'silent', 'reset', 'restart'] as const), forMs: forMs() });
    else if (kind === 'network') steps.push({ atMs, kind, slowMs: choices.pick('trouble', [30, 200, 600]), forMs: forMs() });
    else if (kind === 'service') {
      const service = choices.pick('trouble', ['s3', 'sqs'] as const);
      const how = choices.pick('trouble', ['lost', 'refused', 'errors', 'unanswered', ...(service === 'sqs' ? (['partial'] as const) : [])] as const);
      steps.push({ atMs, kind, service, how, share: choices.pick('trouble', [0.1, 0.5, 1]), forMs: forMs() });
    } else if (kind === 'delivery') {
      const twice = choices.pick('trouble', [0, 0.2, 0.6]);
      const lostDelete = choices.pick('trouble', [0, 0.3]);
      steps.push({ atMs, kind, twice, lostDelete, delayMs: choices.pick('trouble', [0, 3_000, 60_000]), forMs: forMs() });
    } else if (kind === 'kill' || kind === 'reap')
      steps.push({ atMs, kind, program: choices.pick('trouble', ['batch', 'batch', 'predict', 'predictions']) });
    else if (kind === 'forget') steps.push({ atMs, kind });
    else if (kind === 'clock') steps.push({ atMs, kind, jumpMs: choices.pick('trouble', [-3_600_000, -20_000, -900, 700, 3_600_000]) });
    else if (settings.hasBridge) steps.push({ atMs, kind, downMs: choices.between('trouble', 10, 20_000) });
  }
  return steps;
}
