/** Runs a command line. Each command is loaded when it is called, so that `status` does not load onnxruntime. */
import { present } from '../lib/contract/present.ts';
import { suggest } from '../lib/contract/suggest.ts';
import { installation } from '../local/machine/installation.ts';
import { type Command, columns, explained, wrongUse } from './command.ts';
import { EXIT, type Output, openOutput } from './output.ts';

interface Entry {
  readonly summary: string;
  readonly load: () => Promise<Command>;
}

function entry(summary: string, load: () => Promise<{ readonly command: Command }>): Entry {
  return { summary, load: async () => (await load()).command };
}

export const COMMANDS: Readonly<Record<string, Entry>> = {
  init: entry(
    'make a project, or write a commented config.yaml or the serverless.yml of a deployment',
    () => import('./init/init.ts'),
  ),
  start: entry('start the service on this machine, in the background', () => import('./commands/start.ts')),
  stop: entry('stop the service; its data stay', () => import('./commands/stop.ts')),
  restart: entry('stop the service, start it with the same options', () => import('./commands/restart.ts')),
  shutdown: entry('stop the service and delete its data', () => import('./commands/shutdown.ts')),
  status: entry('show if the service runs, where, and how busy it is', () => import('./commands/status.ts')),
  console: entry(
    'show a service in the browser: try, watch, replay, roll back',
    () => import('./console/console.ts'),
  ),
  predict: entry(
    'send images or a JSON request, print the predictions',
    () => import('./commands/predict.ts'),
  ),
  enqueue: entry('put records into the queue', () => import('./commands/enqueue.ts')),
  bridge: entry(
    'move the records of old clients from a Redis stream into the queue',
    () => import('./commands/bridge.ts'),
  ),
  job: entry('answer the rows of files: run, watch, cancel, resume', () => import('./job/job.ts')),
  query: entry('print results', () => import('./commands/query.ts')),
  openapi: entry(
    'describe the HTTP API of a service, for programs that make clients',
    () => import('./openapi/openapi.ts'),
  ),
  model: entry('convert a model to ONNX; upload, list, roll back versions', () => import('./model/model.ts')),
  tune: entry('measure a model: speed, memory and cost by setting', () => import('./tune/tune.ts')),
  plan: entry(
    'say what a rate costs a month, and which limit it meets first',
    () => import('./plan/plan.ts'),
  ),
  doctor: entry('look for pitfalls before a deployment to AWS', () => import('./commands/doctor.ts')),
  'deployer-policy': entry(
    'print the rights that a deployment needs, as a policy of IAM',
    () => import('./commands/deployer-policy.ts'),
  ),
  dlq: entry('list, show, replay or delete dead-lettered records', () => import('./dlq/dlq.ts')),
  capture: entry(
    'list, export or delete captured requests and records',
    () => import('./capture/capture.ts'),
  ),
  notify: entry('show and resume what targets are notified', () => import('./notify/notify.ts')),
};

const SUMMARIES = Object.entries(COMMANDS).map(([name, { summary }]) => [`  ${name}`, summary] as const);

const OTHERS = [
  ['  version', 'the version'],
  ['  help', 'this text, or that of a command: cluster-serving help start'],
] as const;

export const HELP = `Usage: cluster-serving <command> [options]

Serves ONNX models over HTTPS and through a queue. On this machine:

${columns([...SUMMARIES, ...OTHERS], 17).join('\n')}

  -h, --help     this text; after a command, that of the command
  -v, --version  as version
      --json     after any command: print JSON, and nothing else on stdout

init, start, stop, restart and shutdown are also commands of their own: cluster-serving-start -c config.yaml
Exit codes: 0 done, 1 failed, 2 wrong use or config, 3 not running, 4 not ready`;

export async function main(args: readonly string[]): Promise<number> {
  // The reader of the output may close it early: `cluster-serving query --all | head`.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(EXIT.ok);
  });
  return run(args, openOutput(args.includes('--json')));
}

/** @returns the exit code; every failure is reported to `output` */
export async function run(args: readonly string[], output: Output): Promise<number> {
  try {
    return await dispatch(args, output);
  } catch (error) {
    const known = explained(error);
    output.failure(known);
    return known.code === 'bad_config' ? EXIT.wrongUse : EXIT.failed;
  }
}

async function dispatch(args: readonly string[], output: Output): Promise<number> {
  const [first, ...rest] = args.filter((arg, i) => i > 0 || arg !== '--json');
  if (first === undefined) throw wrongUse(`which command?\n\n${HELP}`);
  if (['version', '--version', '-v'].includes(first)) {
    const { version } = installation();
    output.answer({ version, node: process.versions.node }, version);
    return EXIT.ok;
  }
  if (first.startsWith('wkr-')) return (await import('./wkr/main.ts')).runWkr(first, rest, output);
  const isHelp = ['help', '--help', '-h'].includes(first);
  if (first === 'help' && rest[0] !== undefined && rest[0] !== '--json') {
    return (await commandOf(rest[0])).run(['--help'], output);
  }
  if (!isHelp) return (await commandOf(first)).run(rest, output);
  output.answer({ help: HELP }, HELP);
  return EXIT.ok;
}

async function commandOf(name: string): Promise<Command> {
  if (Object.hasOwn(COMMANDS, name)) return present(COMMANDS[name], `command ${name}`).load();
  const meant = suggest(name, Object.keys(COMMANDS));
  const advice = meant ? `did you mean ${meant}?` : '`cluster-serving help` lists them';
  throw wrongUse(`there is no command ${JSON.stringify(name)}; ${advice}`);
}
