/** The options by which a command finds what is deployed from a folder: config, stage, parameters and package. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { FactsRequest } from '../infra/doctor/facts.ts';
import { packageFolder, sampleConfig } from '../local/machine/installation.ts';
import { unexpected, wrongUse } from './command.ts';

export const DEPLOYMENT_OPTIONS = {
  config: { short: 'c', value: 'file', about: 'config.yaml to read (default: ./config.yaml if any)' },
  stage: {
    value: 'name',
    about: "stage (default: the template's, else dev)",
  },
  param: { value: 'name=value', multiple: true, about: 'parameter, as serverless takes it' },
  template: { value: 'file', about: 'packaged template (default: the one in .serverless if any)' },
} as const;

interface DeploymentValues {
  readonly config?: string | undefined;
  readonly stage?: string | undefined;
  readonly param?: readonly string[] | undefined;
  readonly template?: string | undefined;
}

/** @param command in errors. @throws bad_config for wrong use */
export function deploymentRequest(
  command: string,
  { config: named, stage, param = [], template }: DeploymentValues,
): FactsRequest {
  const parameters = parametersOf(param);
  if (named !== undefined && parameters['config'] !== undefined)
    throw wrongUse(`${command}: --config and --param config are the same option; give one of them`);
  const given = named ?? parameters['config'];
  const isSample = parameters['sample'] === 'on';
  if (isSample && given !== undefined)
    throw wrongUse(`${command}: the sample has a config of its own; give --config or --param sample=on`);
  const config = isSample ? sampleConfig() : given;
  const root = process.cwd();
  // The folder with serverless.yml: the current one, or that of this code's checkout.
  const defaults = packageFolder();
  const project = existsSync(join(root, 'serverless.yml')) ? root : defaults;
  return { root, project, defaults, config, stage, parameters, template, packageFolder: undefined };
}

function parametersOf(texts: readonly string[]): Record<string, string> {
  const parameters: Record<string, string> = {};
  for (const text of texts) {
    const at = text.indexOf('=');
    if (at < 1) throw unexpected('param', '<name>=<value>', text);
    parameters[text.slice(0, at)] = text.slice(at + 1);
  }
  return parameters;
}
