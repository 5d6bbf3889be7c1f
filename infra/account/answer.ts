/** One answer of an account to `doctor --account`. */
import { asError } from '../../lib/contract/errors.ts';

/** @param action as in the API. @param limitMs default 10,000. @returns the answer of AWS, as its SDK reads it. @throws its errors */
export type Ask = (
  service: Service,
  action: string,
  input?: Readonly<Record<string, unknown>>,
  limitMs?: number,
) => Promise<unknown>;
export type Service =
  | 'sts'
  | 'lambda'
  | 'ec2'
  | 'cloudformation'
  | 'sqs'
  | 's3'
  | 'logs'
  | 'ssm'
  | 'sns'
  | 'eventbridge'
  | 'sfn';

/** ok: asked, and nothing is in the way. note: could not be asked. */
export type AnswerKind = 'ok' | 'note' | 'warning' | 'error';

export interface AccountAnswer {
  /** Lower case words with hyphens. Part of the public output: scripts rely on it. */
  readonly question: string;
  readonly kind: AnswerKind;
  readonly found: string;
  /** The next step for the user; absent for `ok`. */
  readonly fix?: string;
}

export type Answered = Pick<AccountAnswer, 'kind' | 'found' | 'fix'>;

/** Never throws: a question that could not be asked is a note. @param right that it needs */
export async function answered(
  question: string,
  right: string,
  work: () => Promise<Answered>,
): Promise<AccountAnswer> {
  try {
    return { question, ...(await work()) };
  } catch (error) {
    const { name, message } = asError(error);
    const isDenied = /AccessDenied|UnauthorizedOperation|Forbidden|NotAuthorized|AuthorizationError/i.test(
      `${name} ${message}`,
    );
    const found = isDenied
      ? `could not be asked: no permission for ${right}`
      : `could not be asked: ${name}: ${message}`;
    const fix = isDenied ? `allow ${right}, or look in the console` : 'ask again, or look in the console';
    return { question, kind: 'note', found, fix };
  }
}
