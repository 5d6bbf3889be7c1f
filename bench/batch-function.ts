/**
 * In: inputs with their answers. Out: our batch function in a process of its own on the servers' core, given events as
 * Lambda gives them, and its results checked. Trap: the first result of a uri stays; every drain needs uris of its own.
 */

import { encodeMessage } from '../lib/codecs/message.ts';
import { toInputs } from '../sdk/inputs.ts';
import { OutputQueue } from '../sdk/output-queue.ts';
import type { QueueWork } from './local-stack.ts';
import { URI } from './messages.ts';
import { rowOfUri } from './models.ts';
import type { BatchAnswer, BatchQuestion } from './processes/batch-function.ts';
import { type Child, startChild } from './processes/child.ts';
import { assertSame } from './raw.ts';
import { JOB } from './served.ts';

export class BatchFunction {
  readonly #child: Child<BatchQuestion, BatchAnswer>;
  readonly #work: QueueWork;
  readonly #redisUrl: string;
  #drains = 0;

  private constructor(child: Child<BatchQuestion, BatchAnswer>, work: QueueWork, redisUrl: string) {
    this.#child = child;
    this.#work = work;
    this.#redisUrl = redisUrl;
  }

  static async start(work: QueueWork, redisUrl: string, batchSize: number): Promise<BatchFunction> {
    const child = await startChild<BatchQuestion, BatchAnswer>('batch-function', { role: 'server' });
    const batch = new BatchFunction(child, work, redisUrl);
    try {
      const bodies = await Promise.all(
        work.inputs.map(async (inputs) => encodeMessage(URI, await toInputs(inputs))),
      );
      await child.ask({ kind: 'open', model: work.model, redisUrl, batchSize, bodies, uri: URI });
      return batch;
    } catch (error) {
      await batch.close();
      throw error;
    }
  }

  /** @throws when a result is missing or wrong */
  async drain(records: number, eventRecords: number): Promise<BatchAnswer> {
    const prefix = `drain-${this.#drains++}`;
    const answer = await this.#child.ask({ kind: 'drain', records, eventRecords, prefix });
    await this.#check(records);
    return answer;
  }

  async #check(records: number): Promise<void> {
    const { answers } = this.#work;
    const results = new OutputQueue({ name: JOB, url: this.#redisUrl });
    let checked = 0;
    try {
      for await (const { uri, ...rest } of results.drain()) {
        if ('error' in rest) throw rest.error;
        const expected = answers[rowOfUri(uri, answers.length)] as Float32Array;
        assertSame(rest.result.outputs[0]?.data as Float32Array, expected, uri);
        checked++;
      }
    } finally {
      await results.close();
    }
    if (checked !== records) throw new Error(`${checked} results instead of ${records}`);
  }

  close(): Promise<void> {
    return this.#child.close();
  }
}
