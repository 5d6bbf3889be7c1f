/** A line of a batch as a row of a job: the records that its request needs, and its line of the output or of the errors. */
import { inInstance } from '../../codecs/instances.ts';
import { ServingError } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import type { Inputs, Outcome, Runner } from '../../contract/values.ts';
import type { EndpointName } from './batch.ts';
import { readLine } from './lines.ts';

/** A request as its endpoint reads and answers it over HTTPS. */
export interface Asked {
  readonly records: readonly Inputs[];
  /** Throws for a model that the endpoint does not serve. */
  readonly assertServes?: ((runner: Runner) => void) | undefined;
  /** @returns JSON. @throws too_large, model_failed */
  readonly answer: (outcomes: readonly Outcome[], runner: Pick<Runner, 'version'>) => string;
}

export interface Endpoint {
  /** @param body JSON. @throws bad_request, bad_input, not_found, too_large */
  read(body: string): Asked;
  /** The body of its answer to a request that fails. */
  errorBody(error: ServingError): unknown;
}

/** Why the requests of a batch that have not run do not run. */
export type Refusal = 'batch_cancelled' | 'batch_expired';

const REFUSALS: Readonly<Record<Refusal, string>> = {
  batch_cancelled: 'The batch was cancelled before this request was executed.',
  batch_expired: 'This request could not be executed before the completion window expired.',
};

export class Call {
  readonly #customId: string | null;
  readonly #endpoint: Endpoint;
  readonly #asked: Asked | ServingError;

  constructor(customId: string | null, endpoint: Endpoint, asked: Asked | ServingError) {
    this.#customId = customId;
    this.#endpoint = endpoint;
    this.#asked = asked;
  }

  static read(bytes: Uint8Array, name: EndpointName, endpoint: Endpoint): Call {
    const line = readLine(bytes, name);
    // All lines were checked before.
    if ('code' in line) return new Call(null, endpoint, new ServingError('bad_request', line.message));
    return new Call(line.customId, endpoint, attempt(line.body, endpoint));
  }

  get records(): readonly Inputs[] {
    return this.#asked instanceof ServingError ? [] : this.#asked.records;
  }

  /** The records to run; none where the model is not what the endpoint serves. */
  recordsFor(runner: Runner): readonly Inputs[] {
    return this.#refused(runner) ? [] : this.records;
  }

  /** @param id of the line in its job. @param outcomes of the records, in order */
  answered(id: string, outcomes: readonly Outcome[], runner: Runner): { text: string; isError: boolean } {
    let [status, body] = [200, ''];
    try {
      const refused = this.#refused(runner);
      if (refused) throw refused;
      const failed = outcomes.findIndex(({ ok }) => !ok);
      const first = outcomes[failed];
      if (first?.ok === false) throw inInstance(first.error, failed, outcomes.length);
      // A request without an error has been read.
      body = this.#asked instanceof ServingError ? '' : this.#asked.answer(outcomes, runner);
    } catch (error) {
      const failure = ServingError.from(error);
      [status, body] = [failure.status, JSON.stringify(this.#endpoint.errorBody(failure))];
    }
    const head = `{"status_code":${status},"request_id":"req_${id}","body":${body}}`;
    return { text: this.#line(id, head, 'null'), isError: status !== 200 };
  }

  refused(id: string, refusal: Refusal): { text: string; isError: true } {
    const error = JSON.stringify({ code: refusal, message: REFUSALS[refusal] });
    return { text: this.#line(id, 'null', error), isError: true };
  }

  #refused(runner: Runner): ServingError | undefined {
    if (this.#asked instanceof ServingError) return this.#asked;
    try {
      this.#asked.assertServes?.(runner);
      return undefined;
    } catch (error) {
      return ServingError.from(error);
    }
  }

  #line(id: string, response: string, error: string): string {
    const customId = JSON.stringify(this.#customId);
    return `{"id":"batch_req_${id}","custom_id":${customId},"response":${response},"error":${error}}`;
  }
}

/** As the endpoint reads it over HTTPS, with its limit. */
function attempt(body: string, endpoint: Endpoint): Asked | ServingError {
  try {
    const bytes = Buffer.byteLength(body);
    if (bytes > LIMITS.httpBodyBytes)
      throw overLimit('httpBodyBytes', `the body is ${bytes} bytes, which are`);
    return endpoint.read(body);
  } catch (error) {
    return ServingError.from(error);
  }
}
