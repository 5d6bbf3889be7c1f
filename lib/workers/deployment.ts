/** A deployed worker: which of its settings travel to the functions, and which have no effect there. */
import { ServingError } from '../contract/errors.ts';
import { type Language, languageOf } from './command.ts';

const AUTOSCALE = 'Lambda starts environments under load';
/** Settings without effect, each with the reason. */
const WITHOUT_EFFECT: Readonly<Record<string, string>> = {
  numWorker:
    'each environment has one process; queue.maximumConcurrency limits the environments of the queue',
  batchGroupTimeout: 'a batch is what an event brings: see queue.batchSize and queue.windowSeconds',
  tmpFolder: 'temporary folders are in /tmp',
  logDir: 'the log goes to CloudWatch',
  allowImgHost: 'a deployed service fetches no images',
  stopTimeout: 'Lambda ends an environment without notice',
  numWorkerExpanded: AUTOSCALE,
  deviceToExpand: AUTOSCALE,
  busyUtilThreshold: AUTOSCALE,
  durationExpand: AUTOSCALE,
  durationSqueeze: AUTOSCALE,
};

/**
 * The Python of the image's Linux. For any other `worker.python` it is the first version, for which most packages have
 * wheels.
 */
const PYTHONS = ['python3.12', 'python3.11', 'python3.13', 'python3.14'] as const;

interface Settings {
  readonly class?: string;
  readonly python: string;
  readonly deviceMap: readonly number[];
}

/** The Python of the worker's image, as a command and as the name of its package. */
export function imagePython({ python }: Pick<Settings, 'python'>): string {
  return PYTHONS.find((known) => known === python) ?? PYTHONS[0];
}

/**
 * One note for each setting that is not the default and has no effect on Lambda.
 * @param directory of the config file, where the code is
 */
export function deployedNotes<S extends Settings>(worker: S, defaults: S, directory: string): string[] {
  const language = deployedLanguage(worker, directory, []);
  if (worker.class === undefined) return [];
  const given = new Map(Object.entries(worker));
  const known = new Map(Object.entries(defaults));
  const image = imagePython(worker);
  const python =
    language === 'python'
      ? `the image has ${image}, unless this names one of ${PYTHONS.join(', ')}`
      : 'the worker is not in Python';
  const all =
    language === 'python' && image === worker.python ? WITHOUT_EFFECT : { ...WITHOUT_EFFECT, python };
  return Object.entries(all).flatMap(([name, why]) => {
    const isDefault = JSON.stringify(given.get(name)) === JSON.stringify(known.get(name));
    return isDefault ? [] : [`worker.${name} has no effect when deployed: ${why}`];
  });
}

/** Undefined for a job with a model, and for code that is not there, which is added to `problems`. */
export function deployedLanguage(
  worker: Pick<Settings, 'class'>,
  directory: string,
  problems: string[],
): Language | undefined {
  if (worker.class === undefined) return undefined;
  try {
    return languageOf(worker.class, directory);
  } catch (error) {
    problems.push(ServingError.from(error).message);
    return undefined;
  }
}

/**
 * The settings of a worker for the functions; undefined for a job with a model.
 * @param problems gets what cannot be deployed
 */
export function deployedSettings<S extends Settings>(
  worker: S,
  defaults: S,
  problems: string[],
): S | undefined {
  if (worker.class === undefined) return undefined;
  if (worker.deviceMap.some((device) => device >= 0)) {
    problems.push('worker.deviceMap: Lambda has no GPU; set it to -1, or use `start` on a machine with one');
  }
  const kept = Object.entries(worker).filter(([name]) => !Object.hasOwn(WITHOUT_EFFECT, name));
  // The image has one Python, which is first on its PATH.
  return { ...defaults, ...Object.fromEntries(kept), deviceMap: [-1], python: defaults.python };
}
