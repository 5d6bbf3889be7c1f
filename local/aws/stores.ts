/** The stores of fauxqs, which names no types of them. */
import type { BuildAppOptions } from 'fauxqs';

export type Stores = NonNullable<BuildAppOptions['stores']>;
export type SqsQueue = ReturnType<Stores['sqsStore']['createQueue']>;
