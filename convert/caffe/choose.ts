/**
 * In: the file names of a Caffe model's folder. Out: which of them are nets to serve; more than one is for a person.
 * Trap: a published Caffe model comes with its solver and its training net; the one for serving is called deploy. And
 * some call the net `test.pt`, as PyTorch its archives: it is a net where there are Caffe weights and no other.
 */
export function chosenNets(names: readonly string[]): readonly string[] {
  const texts = names.filter((name) => /\.(prototxt|pt)(\.txt)?$/i.test(name) && !/\.pt$/i.test(name));
  const hasWeights = names.some((name) => /\.caffemodel$/i.test(name));
  const nets = texts.length > 0 || !hasWeights ? texts : names.filter((name) => /\.pt$/i.test(name));
  const served = nets.filter((name) => !/solver/i.test(name));
  const deployed = served.filter((name) => /deploy/i.test(name));
  return served.length > 1 && deployed.length === 1 ? deployed : served;
}
