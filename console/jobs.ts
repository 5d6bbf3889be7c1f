/** Jobs over files, as a service tells the page of them. */

/** GET console/api/jobs: the newest first. POST console/api/cancel {"id"} ends one. */
export interface JobList {
  readonly jobs: readonly JobFacts[];
  /** How many others there are. */
  readonly more: number;
}

export interface JobFacts {
  readonly id: string;
  readonly state: 'waiting' | 'running' | 'done' | 'failed' | 'cancelled';
  readonly rows: number;
  /** Undefined while rows are being counted. */
  readonly total?: number | undefined;
  readonly errors: number;
  readonly files: number;
  /** Why it failed. */
  readonly error?: string | undefined;
  /** Where its results are. */
  readonly results?: string | undefined;
  /** Its cost by example prices; undefined where nothing costs. */
  readonly dollars?: number | undefined;
}
