/** Delivers a notice to the target that it names, in the way of that target. */
import { type AwsAddress, awsAddressOf } from '../contract/aws-address.ts';
import { asError } from '../contract/errors.ts';
import type { Notice, Target, Targets } from '../contract/notice.ts';
import { type Delivery, secretKeys, type Webhooks } from './webhook.ts';

export interface DeliverOptions {
  readonly targets: Targets;
  readonly webhooks: Pick<Webhooks, 'send'>;
  /** Sends to a bus, a topic or a queue. Never throws. */
  readonly sendToAws: (notice: Notice, address: AwsAddress) => Promise<Delivery>;
  /** The text of a target's secret. @throws why it cannot be read */
  readonly readSecret: (name: string, target: Target) => Promise<string>;
  /** A clock in ms. */
  readonly now: () => number;
}

/** A secret that was changed counts after this time. */
const SECRET_MS = 300_000;

interface KeptSecret {
  readonly readAt: number;
  readonly keys: Promise<readonly Buffer[]>;
}

/** @returns a function that never throws */
export function deliverer(options: DeliverOptions): (notice: Notice) => Promise<Delivery> {
  const secrets = new Map<string, KeptSecret>();
  const keysOf = (name: string, target: Target) => {
    const kept = secrets.get(name);
    if (kept && options.now() - kept.readAt < SECRET_MS) return kept.keys;
    const keys = options.readSecret(name, target).then(secretKeys);
    secrets.set(name, { readAt: options.now(), keys });
    keys.catch(() => secrets.delete(name));
    return keys;
  };
  return async (notice) => {
    const { target: name } = notice;
    const target = Object.hasOwn(options.targets, name) ? options.targets[name] : undefined;
    if (!target) return { ok: false, isFinal: true, reason: `no target ${name} in the job's config.yaml` };
    const address = awsAddressOf(target);
    if (address) return options.sendToAws(notice, address);
    try {
      return await options.webhooks.send(notice, target.url ?? '', await keysOf(name, target));
    } catch (error) {
      return { ok: false, reason: asError(error).message };
    }
  };
}
