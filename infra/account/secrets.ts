/** Looks for the secrets of webhooks in Systems Manager, where the notifier will read them. Their values are not asked for. */
import { asError, ServingError } from '../../lib/contract/errors.ts';
import { recordOf, textOf } from '../doctor/template.ts';

/** @param name of a parameter. @returns the answer of ssm:GetParameter, without decryption. @throws its errors */
export type AskParameter = (name: string) => Promise<unknown>;

/** @returns what is wrong with each secret that is not there as it should be. @throws other errors of AWS */
export async function secretProblems(ask: AskParameter, names: readonly string[]): Promise<string[]> {
  const problems: string[] = [];
  for (const name of names) {
    try {
      const type = textOf(recordOf(recordOf(await ask(name))['Parameter'])['Type']);
      if (type !== 'SecureString')
        problems.push(`the parameter ${name} is a ${type || 'text'} and no SecureString`);
    } catch (error) {
      if (!/ParameterNotFound/.test(asError(error).name)) throw error;
      problems.push(`there is no parameter ${name} in Systems Manager`);
    }
  }
  return problems;
}

export const MAKE_SECRET =
  'aws ssm put-parameter --type SecureString --name <name> --value "whsec_$(openssl rand -base64 32)"';

/** An answer of doctor. @throws errors of AWS */
export async function secretsAnswer(ask: AskParameter, names: readonly string[]) {
  const problems = await secretProblems(ask, names);
  if (problems.length > 0) return { kind: 'error', found: problems.join('; '), fix: MAKE_SECRET } as const;
  return { kind: 'ok', found: `${names.length} of targets are in Systems Manager` } as const;
}

/** Before a deployment. @returns a note where the caller may not ask. @throws bad_config */
export async function refuseMissing(
  ask: AskParameter,
  names: readonly string[],
): Promise<string | undefined> {
  let problems: readonly string[];
  try {
    problems = await secretProblems(ask, names);
  } catch (error) {
    return `the secrets of notify could not be looked for: ${asError(error).message}`;
  }
  if (problems.length === 0) return undefined;
  throw new ServingError(
    'bad_config',
    `notify: ${problems.join('; ')}. Nothing was changed. Make it: ${MAKE_SECRET}`,
  );
}
