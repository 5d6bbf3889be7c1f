/** The command `onnx-import`: one folder with a model in, one with ONNX out. */
import { basename, dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { asError, badConfig, ServingError } from '../lib/contract/errors.ts';
import { STAGES } from './import/stages.ts';
import { VERSION } from './import/version.ts';
import { importModel, importReportText, supported, supportedOpsText } from './index.ts';
import { convertOptionsOf, MAKING_OPTIONS, toleranceOf } from './options.ts';

/** Documented in README.md; scripts rely on them. */
const EXIT = { ok: 0, failed: 1, wrongUse: 2, interrupted: 130 } as const;

const OPTIONS = {
  out: { value: 'dir', about: 'where the model is written (default: <dir>-onnx, beside <dir>)' },
  force: { about: 'write into a directory with other files, too; they stay' },
  ...MAKING_OPTIONS,
  ops: { about: 'list the layers and operations that can be converted, and end' },
  json: { about: 'print JSON, and nothing else on stdout' },
  version: { short: 'v', about: 'print the version' },
  help: { short: 'h', about: 'print this text' },
} as const;

interface Option {
  readonly about: string;
  readonly value?: string;
  readonly short?: string;
  readonly multiple?: true;
}

const ERASE = '\r\u001b[K';

/** @returns the exit code; an error is one line on stderr, and with --json a document on stdout, too */
export async function main(args: readonly string[]): Promise<number> {
  const stop = new AbortController();
  const onSignal = () => {
    if (stop.signal.aborted) process.exit(EXIT.interrupted);
    stop.abort(new ServingError('cancelled', 'interrupted; nothing was written'));
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  try {
    await run(args, stop.signal);
    return EXIT.ok;
  } catch (error) {
    const { code, message } = ServingError.from(error);
    if (args.includes('--json')) print(JSON.stringify({ error: message, code }));
    process.stderr.write(`error: ${message}\n`);
    if (stop.signal.aborted) return EXIT.interrupted;
    return code === 'bad_config' ? EXIT.wrongUse : EXIT.failed;
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}

async function run(args: readonly string[], signal: AbortSignal): Promise<void> {
  const { values, positionals } = parse(args);
  const answer = (document: unknown, text: string) => print(values.json ? JSON.stringify(document) : text);
  if (values.help) return answer({ help: HELP }, HELP);
  if (values.version) return answer({ version: VERSION }, VERSION);
  const [directory, surplus] = positionals;
  if (surplus !== undefined)
    throw badConfig(`unexpected ${JSON.stringify(surplus)}; one directory is imported`);
  if (values.ops) {
    const operations = await supported();
    return answer(operations, supportedOpsText(operations));
  }
  if (directory === undefined) throw badConfig('which directory? `onnx-import --help` shows how');
  const { reference, tolerance, force } = values;
  if (tolerance !== undefined && reference === undefined)
    throw badConfig('--tolerance goes with --reference');
  const source = resolve(directory);
  const progress = showProgress(values.json === true);
  const imported = await importModel(source, {
    out: values.out ?? join(dirname(source), `${basename(source)}-onnx`),
    convert: convertOptionsOf(values),
    reference: reference === undefined ? undefined : resolve(reference),
    tolerance: toleranceOf(tolerance),
    onStage: (...said) => progress.show(...said),
    force,
    signal,
  }).finally(() => progress.end());
  answer(imported, `${importReportText(imported.importReport)}\n\nwritten to ${imported.directory}`);
}

function parse(args: readonly string[]) {
  const option = ({ value, short, multiple }: Option) => ({
    type: value === undefined ? ('boolean' as const) : ('string' as const),
    ...(short && { short }),
    ...(multiple && { multiple }),
  });
  const options = Object.fromEntries(
    Object.entries<Option>(OPTIONS).map(([name, given]) => [name, option(given)]),
  );
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
    return { values: values as Values, positionals };
  } catch (error) {
    const [message] = asError(error).message.split('. To specify');
    throw badConfig(`${message}; \`onnx-import --help\` shows how`);
  }
}

type Values = {
  readonly [K in keyof typeof OPTIONS]?: (typeof OPTIONS)[K] extends { multiple: true }
    ? readonly string[]
    : (typeof OPTIONS)[K] extends { value: string }
      ? string
      : boolean;
};

const HELP = `Usage: onnx-import <dir> [options]

Converts the model in <dir> (TensorFlow, PyTorch, Caffe, OpenVINO, BigDL, XGBoost, LightGBM, ONNX, a text model of Hugging
Face, or a directory of MLflow) to ONNX, runs it, checks its answers, and writes it with a report.

Options:
${Object.entries<Option>(OPTIONS)
  .map(([name, { value, short, about }]) => {
    const head = `  ${short ? `-${short},` : '   '} --${name}${value === undefined ? '' : ` <${value}>`}`;
    return `${head.padEnd(30)} ${about}`;
  })
  .join('\n')}

Exit codes: 0 done, 1 the model cannot be imported, 2 wrong use, 130 interrupted`;

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** One line on a terminal, which goes at the end; nothing elsewhere. */
function showProgress(isQuiet: boolean) {
  const terminal = process.stderr;
  const isShown = terminal.isTTY && !isQuiet;
  return {
    show(stage: keyof typeof STAGES, done = 0, bytes = 0) {
      const share = bytes > 0 ? `  ${Math.floor((done / bytes) * 100)} %` : '';
      if (isShown) terminal.write(`${ERASE}${STAGES[stage]}${share}`);
    },
    end() {
      if (isShown) terminal.write(ERASE);
    },
  };
}
