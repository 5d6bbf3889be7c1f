/**
 * The names of a job's further models: the folders that S3 lists. What is asked for under a name is compared with them and nothing
 * else, so a name never becomes a part of a key that is not there.
 */
import { logWarning } from '../contract/log.ts';
import { isModelName } from '../contract/names.ts';
import { listFolders, type S3Client } from '../s3/objects.ts';
import { type ModelLocation, unreachable } from './download.ts';

/** Folders that are looked at; later ones in the order of S3 are not served. */
const MOST_LISTED = 5_000;
/** An unknown name is looked for again after this time. */
const UNKNOWN_MS = 2_000;

export interface ModelNamesOptions {
  /** How long a list is used, in ms. */
  readonly refreshMs: number;
  /** Wall clock in ms. */
  readonly now: () => number;
  /** Called with each list. */
  readonly onList?: (names: ReadonlySet<string>) => void;
}

/** @throws model_unavailable */
export async function listModelNames(
  s3: S3Client,
  { bucket, prefix }: ModelLocation,
  signal?: AbortSignal,
): Promise<string[]> {
  const where = { bucket, key: prefix };
  const found = await listFolders(s3, where, MOST_LISTED, signal).catch((error: unknown) => {
    throw unreachable({ bucket, prefix }, error);
  });
  return found.filter(isModelName);
}

export class ModelNames {
  readonly #list: () => Promise<readonly string[]>;
  readonly #options: ModelNamesOptions;
  #names: ReadonlySet<string> | undefined;
  /** When the last list began. */
  #listedAt = Number.NEGATIVE_INFINITY;
  #listing: Promise<ReadonlySet<string>> | undefined;
  /** Why the last list failed, where an earlier one is used. */
  #failure: unknown;

  constructor(list: () => Promise<readonly string[]>, options: ModelNamesOptions) {
    this.#list = list;
    this.#options = options;
  }

  /**
   * @param since see NamedModels.find
   * @throws model_unavailable when they cannot be listed, for a name that no earlier list has: it may be new
   */
  async has(name: string, since?: number): Promise<boolean> {
    if (!isModelName(name)) return false;
    if ((await this.known()).has(name)) return true;
    const sinceMs = since ?? this.#options.now() - UNKNOWN_MS;
    if (this.#listing) await this.#listing;
    const names = this.#listedAt < sinceMs ? await this.#relisted() : await this.known();
    if (!names.has(name) && this.#failure !== undefined) throw this.#failure;
    return names.has(name);
  }

  /** How many were listed last. */
  get size(): number {
    return this.#names?.size ?? 0;
  }

  /** @throws model_unavailable when they cannot be listed, and never were */
  async known(): Promise<ReadonlySet<string>> {
    const ageMs = this.#options.now() - this.#listedAt;
    // A clock that was set back makes it due.
    if (this.#names && ageMs >= 0 && ageMs < this.#options.refreshMs) return this.#names;
    return this.#relisted();
  }

  #relisted(): Promise<ReadonlySet<string>> {
    this.#listing ??= this.#ask().finally(() => {
      this.#listing = undefined;
    });
    return this.#listing;
  }

  async #ask(): Promise<ReadonlySet<string>> {
    const startedAt = this.#options.now();
    try {
      const names = new Set(await this.#list());
      this.#names = names;
      this.#failure = undefined;
      this.#listedAt = startedAt;
      this.#options.onList?.(names);
      return names;
    } catch (error) {
      if (!this.#names) throw error;
      this.#failure = error;
      logWarning(
        `the models of the job cannot be listed, and those that were known serve: ${String(error)}`,
        {
          phase: 'model',
        },
      );
      // As a version that cannot be looked for: the next time is after the usual pause.
      this.#listedAt = startedAt;
      return this.#names;
    }
  }
}
