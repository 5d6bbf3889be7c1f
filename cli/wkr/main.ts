/** The wkr commands. Each is a script of its own in cli/bin, and is loaded when it is called. */
import { wrongUse } from '../command.ts';
import type { Output } from '../output.ts';
import type { WkrCommand } from './flags.ts';

const CONTROLS = ['status', 'switch', 'idle', 'restart', 'terminate'] as const;

export const WKR_COMMANDS: Readonly<Record<string, () => Promise<WkrCommand>>> = {
  'wkr-serving-start': async () => (await import('./serving/start.ts')).command,
  'wkr-serving-make': async () => (await import('./serving/make.ts')).command,
  'wkr-serving-terminate': async () => (await import('./serving/terminate.ts')).command,
  'wkr-decentral-start': async () => (await import('./decentral/start.ts')).command,
  'wkr-decentral-make': async () => (await import('./decentral/make.ts')).command,
  ...Object.fromEntries(
    CONTROLS.map((verb) => [
      `wkr-decentral-${verb}`,
      async () => (await import('./decentral/control.ts')).commands[verb],
    ]),
  ),
};

/** @returns the exit code */
export async function runWkr(name: string, args: readonly string[], output: Output): Promise<number> {
  const load = Object.hasOwn(WKR_COMMANDS, name) ? WKR_COMMANDS[name] : undefined;
  if (!load) throw wrongUse(`there is no command ${JSON.stringify(name)}`);
  return (await load()).run(args, output);
}
