/** The fixture of a store's test: a job of its own, and as many environments of it as it asks for. */
import type { TestContext } from 'node:test';
import type { RunCounts } from '../../../../lib/pipeline/counted-runs.ts';
import type {
  Limiter,
  LimiterOptions,
  Replacer,
  Results,
  ResultsOptions,
  States,
  StatesOptions,
  Store,
  StoreConnection,
  Sums,
} from '../../../../lib/results/store.ts';

/** How to reach a store, and how to keep it from answering. */
export interface StoreAccess<C extends StoreConnection> {
  readonly store: Store<C>;
  /** A new connection, as each environment has. */
  readonly connect: () => C;
  /** A connection to a store that is away. */
  readonly connectAway: () => C;
  /** A connection whose commands are carried out, while their answers are lost as long as `isLost` says so. Default: cannot be arranged. */
  readonly connectLossy?: ((isLost: () => boolean) => Promise<C>) | undefined;
  /** Keeps a uri from having a result. Default: each can have one. */
  readonly block?: ((job: string, uri: string) => Promise<void>) | undefined;
}

type EnvironmentOptions = Partial<Omit<ResultsOptions, 'job'> & Pick<StatesOptions, 'latestOrder'>>;

/** The parts of a store that an environment has, on one connection. */
export interface Environment {
  readonly connection: StoreConnection;
  readonly results: Results;
  readonly states: States;
  readonly runs: RunCounts;
  readonly replacer: Replacer;
  readonly trials: Sums;
  readonly costs: Sums;
  openLimiter(options: Omit<LimiterOptions, 'job'>): Limiter;
}

/** The job of one test. */
export interface Place {
  /** Opens an environment, which is closed after the test. */
  open(options?: EnvironmentOptions): Environment;
  /** Another job in the same store. */
  openOther(): Environment;
  openAway(): Environment;
  /** Opens an environment that hears no answer while `line.isCut`. Undefined where that cannot be arranged. */
  openLossy(): Promise<{ readonly environment: Environment; readonly line: { isCut: boolean } } | undefined>;
  /** @returns false where each uri can have a result */
  block(uri: string): Promise<boolean>;
}

export type At = (t: TestContext) => Place;

/** The runs after which a record is not run again. */
export const MOST_RUNS = 5;

export function openPlace<C extends StoreConnection>(
  t: TestContext,
  access: StoreAccess<C>,
  job: string,
): Place {
  const openOn = (connection: C, options?: EnvironmentOptions, ofJob = job) => {
    const environment = openEnvironment(access.store, connection, ofJob, options);
    t.after(() => environment.results.close());
    return environment;
  };
  return {
    open: (options) => openOn(access.connect(), options),
    openOther: () => openOn(access.connect(), {}, `${job}-other`),
    openAway: () => openOn(access.connectAway()),
    openLossy: async () => {
      const line = { isCut: false };
      const connection = await access.connectLossy?.(() => line.isCut);
      return connection && { environment: openOn(connection), line };
    },
    block: async (uri) => {
      await access.block?.(job, uri);
      return access.block !== undefined;
    },
  };
}

function openEnvironment<C extends StoreConnection>(
  store: Store<C>,
  connection: C,
  job: string,
  { latestOrder, ttlSeconds = 60, now = Date.now, ...rest }: EnvironmentOptions = {},
): Environment {
  return {
    connection,
    results: store.openResults(connection, { job, ttlSeconds, now, ...rest }),
    states: store.openStates(connection, { job, now, latestOrder }),
    runs: store.openRunCounts(connection, { job, retentionSeconds: 60, most: MOST_RUNS }),
    trials: store.openSums(connection, { job, kind: 'trial' }),
    costs: store.openSums(connection, { job, kind: 'budget' }),
    replacer: store.openReplacer(connection, { job, ttlSeconds, now }),
    openLimiter: (options) => store.openLimiter(connection, { job, ...options }),
  };
}
