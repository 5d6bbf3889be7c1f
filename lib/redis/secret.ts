/**
 * Reads the password of Redis from a parameter of AWS Systems Manager, of type SecureString. A function reads it once,
 * while it downloads the model. The AWS SDK would do it too, and its client alone costs a tenth of a cold start.
 */
import type { AwsPlace } from '../aws/call.ts';
import { parameterValue } from '../aws/parameter.ts';
import { asError, ServingError } from '../contract/errors.ts';
import { leave } from '../contract/under-way.ts';

export interface ParameterSecret extends AwsPlace {
  /** Name of the parameter, as "/my-job/redis". */
  readonly parameter: string;
}

/** When Redis refuses the password, it may have been changed. It is read again, but not before this time has passed. */
const LEAST_AGE_MS = 5_000;

/** The value of a parameter, which is read at once and kept. A failed reading is repeated at the next use. */
export class CachedSecret {
  readonly #read: () => Promise<string>;
  readonly #now: () => number;
  #value: Promise<string> | undefined;
  #readAt = 0;

  /** @param now wall clock, in ms */
  constructor(read: () => Promise<string>, now: () => number) {
    this.#read = read;
    this.#now = now;
    // The first use of the value gets the error.
    leave(this.#start());
  }

  get(): Promise<string> {
    return this.#value ?? this.#start();
  }

  /** For a value that may have been refused. */
  getChanged(): Promise<string> {
    return this.#now() - this.#readAt >= LEAST_AGE_MS ? this.#start() : this.get();
  }

  #start(): Promise<string> {
    const value = this.#read();
    this.#value = value;
    this.#readAt = this.#now();
    value.catch(() => {
      if (this.#value === value) this.#value = undefined;
    });
    return value;
  }
}

/** @throws results_unavailable with the reason that AWS gives */
export async function readParameter({ parameter, ...place }: ParameterSecret): Promise<string> {
  return parameterValue(place, parameter).catch((error: unknown) => {
    const message = `the password of Redis, parameter ${parameter} of Systems Manager: ${asError(error).message}`;
    throw new ServingError('results_unavailable', message, { cause: error });
  });
}
