/** A table in DynamoDB as the store of results: what lib/results/store.ts asks of one. */
import { badConfig } from '../contract/errors.ts';
import type { Store } from '../results/store.ts';
import { TableConnection, type TablePlace } from './connection.ts';
import { TableLimiter } from './limiter.ts';
import { TableStates } from './record-states.ts';
import { TableReplacer } from './replacer.ts';
import { TableResults } from './results.ts';
import { TableRunCounts } from './run-counts.ts';
import { TableSums } from './sums.ts';

type TableStore = Store<TableConnection, TablePlace>;

export const connect: TableStore['connect'] = (place, timeouts) => {
  if (place.tableName === '') throw badConfig('the environment variable CLUSTER_SERVING_TABLE is not set');
  return new TableConnection(place, timeouts);
};

export const resultLimit = 'tableResultBytes';

export const openResults: TableStore['openResults'] = (connection, options) =>
  new TableResults(connection, options);

export const openStates: TableStore['openStates'] = (connection, options) =>
  new TableStates(connection, options);

export const openRunCounts: TableStore['openRunCounts'] = (connection, options) =>
  new TableRunCounts(connection, options);

export const openLimiter: TableStore['openLimiter'] = (connection, options) =>
  new TableLimiter(connection, options);

export const openSums: TableStore['openSums'] = (connection, options) => new TableSums(connection, options);

export const openReplacer: TableStore['openReplacer'] = (connection, options) =>
  new TableReplacer(connection, options);
