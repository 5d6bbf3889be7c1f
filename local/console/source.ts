/** The data and actions of a console. The single machine and the command `console` each implement it. */
import type {
  DeadLetterPage,
  Done,
  EditableLetter,
  Example,
  LiveFacts,
  ModelFacts,
  NoticeFacts,
  Part,
  RecentRecords,
  TimerFacts,
  Versions,
} from '../../console/api.ts';
import type { CaptureFacts } from '../../console/captures.ts';
import type { JobList } from '../../console/jobs.ts';

export interface ConsoleSource {
  model(): Promise<Part<ModelFacts>>;
  example(): Promise<Part<Example>>;
  live(): Promise<Part<LiveFacts | TimerFacts>>;
  records(): Promise<Part<RecentRecords>>;
  /** @param after continues after this id */
  deadLetters(after: string | undefined): Promise<Part<DeadLetterPage>>;
  versions(): Promise<Part<Versions>>;
  /** The payload of a dead letter. */
  editable(id: string): Promise<Part<EditableLetter>>;
  /** Enqueues a dead letter with another payload. @throws what says why not */
  edit(id: string, payload: string): Promise<Done>;
  notices(): Promise<Part<NoticeFacts>>;
  captures(): Promise<Part<CaptureFacts>>;
  jobs(): Promise<Part<JobList>>;
  /** Ends a job over files. @throws what says why not */
  cancel(id: string): Promise<Done>;
  /** Ends the pause of a target, and sends again what was given up of it. @throws what says why not */
  resume(target: string): Promise<Done>;
  /** Runs a dead letter again. @throws what says why not */
  replay(id: string): Promise<Done>;
  /** Makes a version serve. @throws what says why not */
  activate(version: string): Promise<Done>;
  /** Makes the version on trial serve. @throws what says why not */
  promote(version: string): Promise<Done>;
  /** Ends its trial. @throws what says why not */
  end(version: string): Promise<Done>;
}
