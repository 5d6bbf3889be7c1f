/**
 * Faults that the product once had, or that its design excludes, planted: each as a change of one source file. Seeds find them that were
 * not chosen after them (`npm run test:simulation -- --planted`).
 */
import type { Patch } from '../machine/bundle.ts';

export interface PlantedFault extends Patch {
  readonly name: string;
  /** The effect of the change. */
  readonly what: string;
  /** The invariants that may see it. */
  readonly seenBy: readonly string[];
  /** The first that finds it. It changes with the plans that are drawn: `npm run test:simulation -- --planted`. */
  readonly seed: number;
}

export const PLANTED: readonly PlantedFault[] = [
  {
    name: 'frozen refresh',
    what: 'the check for a new version of the model goes on beside the answer, and is stopped with the function',
    file: 'lib/compose/model.ts',
    find: '...(inLambda ? { leftMs: () => scope.leftMs(), random: Math.random } : {}),',
    replace: '...(inLambda ? { random: Math.random } : {}),',
    seenBy: ['new versions serve', 'nothing is left at an answer'],
    seed: 1,
  },
  {
    name: 'starvation',
    what: 'an isolated process that is not ready in time is ended, and started again by the next delivery',
    file: 'lib/inference/isolated-runner.ts',
    find: 'const goesOn = isOpening && isTimeout(error) && started.waitedMs < MOST_OPENING_MS;',
    replace: 'const goesOn = isOpening && isTimeout(error) && started.waitedMs < 0;',
    seenBy: ['nothing is lost', 'the queue empties'],
    seed: 17,
  },
  {
    name: 'bridge order',
    what: 'the bridge sends entries of one uri at the same time',
    file: 'local/bridge/deliveries.ts',
    find: 'else void this.#turns.run(record.uri, () => this.#deliver(entry, record, this.#term));',
    replace:
      'else void this.#turns.run(record.uri + entry.id, () => this.#deliver(entry, record, this.#term));',
    seenBy: ['last enqueue wins', 'nothing is lost'],
    seed: 9,
  },
  {
    name: 'clock back',
    what: 'a clock that is set back by an hour delays the check for a new version by an hour',
    file: 'lib/inference/model-manager.ts',
    find: 'waitMs > 0 && waitMs <= this.#options.refreshMs && !this.#lacksCanary',
    replace: 'waitMs > 0 && !this.#lacksCanary',
    seenBy: ['new versions serve'],
    seed: 633,
  },
  {
    name: 'position of a Lua argument',
    what: 'the second record of a batch is saved with the value of the first',
    file: 'lib/redis/result-writer.ts',
    find: '...finished.map(({ fields }) => fields.value));',
    replace: '...finished.map((_, i) => finished[Math.max(0, i - 1)].fields.value));',
    seenBy: ['no foreign answer', 'right status'],
    seed: 1,
  },
  {
    name: 'await before the acknowledgement',
    what: 'messages are acknowledged while their results are being saved',
    file: 'lib/pipeline/serve.ts',
    find: 'const [unsaved] = await Promise.all([ids, notified]);',
    replace:
      'const [unsaved] = await Promise.all([[], notified]); void Promise.resolve(ids).catch(() => undefined);',
    seenBy: ['nothing is lost', 'nothing is left at an answer'],
    seed: 1,
  },
  {
    name: 'forgotten outcomes',
    what: 'an enqueue that had its outcome before a later one, or was cancelled, can have another',
    file: 'lib/redis/scripts/generated.ts',
    find: 'if held and isSettled(held, identity) then return false end',
    replace: '',
    seenBy: ['one outcome per identity', 'what is cancelled stays so'],
    seed: 45,
  },
  {
    name: 'outbox emptied early',
    what: 'the notifier removes an object of the outbox before its notices are delivered or in a queue',
    file: 'lib/notify/notifier.ts',
    find: 'await Promise.all(parcels.map((parcel) => round.settle(parcel)));',
    replace:
      'if (keys.length > 0) await outbox.remove(keys); await Promise.all(parcels.map((parcel) => round.settle(parcel)));',
    seenBy: ['a target is notified'],
    seed: 16,
  },
  {
    name: 'captures of two versions',
    what: 'what a new version answers is stored below the version before',
    file: 'lib/observe/capture.ts',
    find: 'const held = this.#held.get(key) ?? { model, version, lines: [] };',
    replace:
      'const held = this.#held.values().find((one) => one.model === model) ?? { model, version, lines: [] };',
    seenBy: ['captures are right'],
    seed: 8,
  },
  {
    name: 'captures under way',
    what: 'captures are being stored when a function answers',
    file: 'lib/observe/capture.ts',
    find: 'return this.#isQueue ? this.#storeIfDue() : this.#storing;',
    replace: 'return undefined;',
    seenBy: ['nothing is left at an answer'],
    seed: 6,
  },
  {
    name: 'canary that stays',
    what: 'an environment keeps a canary that has ended, with its share',
    file: 'lib/inference/model-manager.ts',
    find: `    this.#share = share;
    this.#refused = undefined;`,
    replace: `    share ??= this.#share;
    this.#share = share;
    this.#refused = undefined;`,
    seenBy: ['no third version'],
    seed: 13,
  },
  {
    name: 'side of each delivery',
    what: 'the side of a record is drawn at each delivery',
    file: 'lib/inference/canary-share.ts',
    find: 'return digest.readUInt32BE(0) / 2 ** 32 < share;',
    replace: 'return digest.length > 0 && Math.random() < share;',
    seenBy: ['a key keeps its side'],
    seed: 2,
  },
  {
    name: 'pointer without its condition',
    what: 'the pointer is written though it was changed since it was read',
    file: 'lib/registry/pointer.ts',
    find: 'const written = isSame && (await put(s3, location, text, etag));',
    replace: 'const written = await put(s3, location, text, now.etag);',
    seenBy: ['one pointer'],
    seed: 17,
  },
  {
    name: 'name of the other version',
    what: 'answers of a canary are saved with the name of the version that serves',
    file: 'lib/pipeline/serve.ts',
    find: 'return { ...sortOutcomes(decoded, outcomes, buffers), version, notified, settle };',
    replace:
      'return { ...sortOutcomes(decoded, outcomes, buffers), version: parts.runner.version, notified, settle };',
    seenBy: ['versions are named'],
    seed: 2,
  },
  {
    name: 'golden requests are enough',
    what: 'the scheduled look finds a canary bad by its golden requests only',
    file: 'release/trial/watch.ts',
    find: 'ended === undefined ? judge(sums, common.looks)',
    replace: "true ? ({ verdict: 'no worse', reason: '', looks: 0 } as const)",
    seenBy: ['a bad canary ends'],
    seed: 13,
  },
  {
    name: 'forgotten look',
    what: 'a look that fails at the counts is taken for one that ended while it opened the canary',
    file: 'release/trial/watch.ts',
    find: 'if (tried.problem === undefined)',
    replace: 'if (tried.golden === undefined)',
    seenBy: ['a canary ends for a reason'],
    seed: 13,
  },
  {
    name: 'rest of the rows',
    what: 'the message of the rows for which no time is left is sent beside the answer of the function of jobs',
    file: 'lib/jobs/serve.ts',
    find: 'if (rest) await deps.send(rest);',
    replace: 'if (rest) void deps.send(rest).catch(() => undefined);',
    seenBy: ['rows are answered', 'nothing is left at an answer'],
    seed: 39,
  },
  {
    name: 'parts that overlap',
    what: 'a file counts as answered when its parts have as many rows, also where two deliveries answered the same ones',
    file: 'lib/jobs/watch.ts',
    find: 'const found = path(byUnit.get(unit) ?? [], rows);',
    replace:
      'const own = byUnit.get(unit) ?? []; const found = own.reduce((sum, one) => sum + one.rows, 0) < rows ? undefined : own;',
    seenBy: ['rows are answered', 'the queue empties'],
    seed: 57,
  },
  {
    name: 'model of the first group',
    what: 'all records of an event that name further models are run by the first of these',
    file: 'lib/pipeline/sides.ts',
    find: 'else if (named.has(model)) present(named.get(model), model).push(record);',
    replace: 'else if (named.size > 0) named.values().next().value.push(record);',
    seenBy: ['no foreign answer'],
    seed: 4,
  },
  {
    name: 'name lost on the way',
    what: 'a record that was enqueued over HTTPS loses the name of its model',
    file: 'lib/http/accept.ts',
    find: `    model,
    ...assertTarget`,
    replace: '    ...assertTarget',
    seenBy: ['no foreign answer'],
    seed: 4,
  },
  {
    name: 'evicted on paper',
    what: 'a model that makes room for another one counts as closed, and stays open',
    file: 'lib/inference/model-shelf.ts',
    find: 'leave(this.#close(one));',
    replace: 'one.bytes = 0;',
    seenBy: ['the memory of further models'],
    seed: 4,
  },
  {
    name: 'one folder for all models',
    what: 'further models share a folder of downloads, so that each removes the files of the others',
    file: 'lib/registry/named-folders.ts',
    find: 'return join(this.#root, name);',
    replace: 'return name === undefined ? join(this.#root, name) : this.#root;',
    seenBy: ['right status', 'nothing is lost'],
    seed: 30,
  },
  {
    name: 'any name is a model',
    what: 'a name that S3 does not list is looked for below its key',
    file: 'lib/compose/named.ts',
    find: 'if (!(await this.#names.has(name, since))) {',
    replace: "if (!(await this.#names.has(name, since)) && name === '') {",
    seenBy: ['an unknown model is not found'],
    seed: 4,
  },
  {
    name: 'one for all',
    what: 'a model that does not open fails the event, and with it the records of others',
    file: 'lib/pipeline/serve.ts',
    find: 'const outcomes = records.map((): Outcome => ({ ok: false, error }));',
    replace:
      'if (error.retryable) throw error; const outcomes = records.map((): Outcome => ({ ok: false, error }));',
    seenBy: ['a model costs its own records'],
    seed: 124,
  },
];
