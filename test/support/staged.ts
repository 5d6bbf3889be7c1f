/** Builds the packages into the folder of its parameter, in a process into which once.mjs was loaded (installed.ts). */
import { buildPackages } from '../../infra/packages/build.ts';
import { ROOT } from './start.ts';

const [, , outFolder = ''] = process.argv;
console.log(JSON.stringify(await buildPackages({ root: ROOT, outFolder })));
