/** The data and actions of a console. The single machine and the command `console` each implement it. */
import type {
  DeadLetterPage,
  Done,
  Example,
  LiveFacts,
  ModelFacts,
  Part,
  RecentRecords,
  TimerFacts,
  Versions,
} from '../../console/api.ts';

export interface ConsoleSource {
  model(): Promise<Part<ModelFacts>>;
  example(): Promise<Part<Example>>;
  live(): Promise<Part<LiveFacts | TimerFacts>>;
  records(): Promise<Part<RecentRecords>>;
  /** @param after continues after this id */
  deadLetters(after: string | undefined): Promise<Part<DeadLetterPage>>;
  versions(): Promise<Part<Versions>>;
  /** Runs a dead letter again. @throws what says why not */
  replay(id: string): Promise<Done>;
  /** Makes a version serve. @throws what says why not */
  activate(version: string): Promise<Done>;
}
