/*
 * Makes ../cases.jsonl.gz with BigDL 0.13.0 itself: one module or small net per line, saved by saveModule, with an
 * input and BigDL's own output. README.md says how to run it.
 */
import java.io.{File, FileOutputStream, OutputStreamWriter}
import java.nio.file.{Files, Paths}
import java.util.{Base64, Random}
import java.util.zip.GZIPOutputStream

import com.intel.analytics.bigdl.Module
import com.intel.analytics.bigdl.nn._
import com.intel.analytics.bigdl.nn.Graph.ModuleNode
import com.intel.analytics.bigdl.nn.abstractnn.{AbstractModule, Activity, DataFormat}
import com.intel.analytics.bigdl.nn.{keras => k}
import com.intel.analytics.bigdl.numeric.NumericFloat
import com.intel.analytics.bigdl.tensor.Tensor
import com.intel.analytics.bigdl.utils.{Engine, RandomGenerator, Shape, T, Table}

import scala.util.control.NonFatal

object Generate {
  type M = AbstractModule[_ <: Activity, _ <: Activity, Float]

  val random = new Random(7)
  var lines = List[String]()
  var failed = 0

  /** Multiples of 1/64, so that the file stays small. */
  def x(size: Int*): Tensor[Float] = fill(Tensor[Float](size: _*), -1.5, 1.5)

  def fill(t: Tensor[Float], low: Double, high: Double): Tensor[Float] = {
    t.apply1(_ => (Math.round((low + random.nextDouble() * (high - low)) * 64) / 64.0).toFloat)
    t
  }

  def list(values: Double*): Tensor[Float] = Tensor[Float](values.map(_.toFloat).toArray, Array(values.length))

  def flat(activity: Activity): Seq[Tensor[_]] = activity match {
    case t: Tensor[_] => Seq(t)
    case table: Table => (1 to table.length()).flatMap(i => flat(table[Activity](i)))
  }

  def json(t: Tensor[_]): String = {
    val c = t.contiguous()
    val from = c.storageOffset() - 1
    val text = (c.storage().array(): Any) match {
      case floats: Array[Float] => floats.map(f => if (f == f.toLong) f.toLong.toString else f.toString).toSeq
      case others: Array[_] => others.map(v => if (v == true) "1" else if (v == false) "0" else v.toString).toSeq
    }
    s"""{"shape":[${t.size().mkString(",")}],"data":[${text.slice(from, from + c.nElement()).mkString(",")}]}"""
  }

  def randomize(module: M): Unit = {
    val p = module.parameters()
    if (p != null) p._1.foreach(t => fill(t, -0.7, 0.7))
    val extra = module.getExtraParameter()
    if (extra != null) extra.foreach(t => if (t.nElement() > 0) fill(t, 0.2, 1.5))
  }

  def save(module: M, path: String, weights: String = null): Unit =
    module.asInstanceOf[Module[Float]].saveModule(path, weights, true)

  /** @param keep leaves the weights as they are: quantized ones, and those with a meaning */
  def test(name: String, module: => M, input: => Activity, keep: Boolean = false, separate: Boolean = false): Unit = try {
    val m = module
    if (!keep) randomize(m)
    m.evaluate()
    val in = input
    val inputs = flat(in).map(json)
    val file = File.createTempFile("case", ".bigdl").getPath
    val weights = if (separate) file + ".bin" else null
    save(m, file, weights)
    val loaded = com.intel.analytics.bigdl.nn.Module.loadModule[Float](file, weights)
    loaded.evaluate()
    val outputs = flat(loaded.forward(in)).map(json)
    val unstable = if (flat(loaded.forward(in)).map(json) == outputs) "" else ",\"unstable\":true"
    val bytes = (path: String) => Base64.getEncoder.encodeToString(Files.readAllBytes(Paths.get(path)))
    val second = if (separate) s""","weights":"${bytes(weights)}"""" else ""
    lines = s"""{"name":"$name","model":"${bytes(file)}"$second$unstable,"inputs":[${inputs.mkString(",")}],"outputs":[${outputs.mkString(",")}]}""" :: lines
  } catch {
    case NonFatal(e) => failed += 1; println(s"FAILED $name: $e ${e.getStackTrace.take(3).mkString(" ")}")
  }

  def graph(f: => (Array[ModuleNode[Float]], Array[ModuleNode[Float]])): M = { val (i, o) = f; Graph[Float](i, o) }

  def wrapped(layer: => M, shape: Shape): M = {
    val m = k.Sequential[Float]()
    m.asInstanceOf[k.Sequential[Float]].add(k.InputLayer[Float](inputShape = shape).asInstanceOf[M])
    m.add(layer)
    m
  }

  def main(args: Array[String]): Unit = {
    System.setProperty("bigdl.localMode", "true")
    System.setProperty("bigdl.coreNumber", "1")
    Engine.init
    RandomGenerator.RNG.setSeed(3)
    Elements.run()
    Layers.run()
    Shapes.run()
    Nets.run()
    val out = new OutputStreamWriter(new GZIPOutputStream(new FileOutputStream(args(0))), "UTF-8")
    lines.reverse.foreach(line => out.write(line + "\n"))
    out.close()
    println(s"${lines.length} cases, $failed failed")
    System.exit(0)
  }
}

import Generate._

object Elements {
  def run(): Unit = {
    val two = () => x(2, 5)
    for ((name, m) <- Seq[(String, () => M)](
      "Abs" -> (() => Abs()), "ReLU" -> (() => ReLU()), "ReLU6" -> (() => ReLU6()), "Tanh" -> (() => Tanh()),
      "Sigmoid" -> (() => Sigmoid()), "ELU" -> (() => ELU(0.7)), "LeakyReLU" -> (() => LeakyReLU(0.03)),
      "SoftPlus" -> (() => SoftPlus(2.0)), "SoftSign" -> (() => SoftSign()), "SoftMin" -> (() => SoftMin()),
      "SoftShrink" -> (() => SoftShrink(0.4)), "HardShrink" -> (() => HardShrink(0.6)), "TanhShrink" -> (() => TanhShrink()),
      "HardTanh" -> (() => HardTanh(-0.5, 0.75)), "HardSigmoid" -> (() => HardSigmoid()), "Clamp" -> (() => Clamp(-1, 1)),
      "Threshold" -> (() => Threshold(0.25, -3.0)), "BinaryThreshold" -> (() => BinaryThreshold(0.1)),
      "LogSigmoid" -> (() => LogSigmoid()), "Exp" -> (() => Exp()), "Square" -> (() => Square()),
      "Negative" -> (() => Negative()), "Power" -> (() => Power(2.0, 1.5, 0.25)), "Power3" -> (() => Power(3.0, -1.0, 0.25)),
      "PowerHalf" -> (() => Power(0.5, 1.0, 4.0)),
      "MulConstant" -> (() => MulConstant(1.7)), "AddConstant" -> (() => AddConstant(-0.3)), "Mul" -> (() => Mul()),
      "Add" -> (() => Add(5)), "Dropout" -> (() => Dropout(0.4)), "GaussianNoise" -> (() => GaussianNoise(0.3)),
      "GaussianDropout" -> (() => GaussianDropout(0.3)), "Identity" -> (() => Identity()), "Echo" -> (() => Echo()),
      "Contiguous" -> (() => Contiguous()), "RReLU" -> (() => RReLU(0.1, 0.3)), "PReLUone" -> (() => PReLU()),
      "PReLU" -> (() => PReLU(5)), "L1Penalty" -> (() => L1Penalty(1)), "GradientReversal" -> (() => GradientReversal()),
      "LogSoftMax" -> (() => LogSoftMax()), "SoftMax2" -> (() => SoftMax()), "Linear" -> (() => Linear(5, 3)),
      "LinearNoBias" -> (() => Linear(5, 3, withBias = false)), "Cosine" -> (() => Cosine(5, 3)), "Euclidean" -> (() => Euclidean(5, 3)),
      "Highway" -> (() => Highway(5, activation = Tanh[Float]())), "HighwayNoBias" -> (() => Highway(5, withBias = false)),
      "Maxout" -> (() => Maxout(5, 2, 3)), "BatchNorm" -> (() => BatchNormalization(5)), "BatchNormEps" -> (() => BatchNormalization(5, 0.01)),
      "CMul1" -> (() => CMul(Array(1, 5))), "CMulFlat" -> (() => CMul(Array(5))), "CAdd1" -> (() => CAdd(Array(1, 5))), "CAddFlat" -> (() => CAdd(Array(5))),
      "Scale" -> (() => Scale(Array(1, 5))), "Normalize2" -> (() => Normalize(2.0)), "Normalize1" -> (() => Normalize(1.0, 0.1)),
      "NormalizeInf" -> (() => Normalize(Double.MaxValue)), "Normalize3" -> (() => Normalize(3.0)),
      "SReLU" -> (() => SReLU(Array(5))), "SpatialDropout1DNone" -> (() => Dropout(0.1, true)),
      "ActivityRegularization" -> (() => ActivityRegularization(0.1, 0.1)), "NegativeEntropyPenalty" -> (() => NegativeEntropyPenalty(0.1))
    )) test(name, m(), two())
    test("Sqrt", Sqrt(), fill(Tensor[Float](2, 3), 0.1, 2)); test("Log", Log(), fill(Tensor[Float](2, 3), 0.1, 2))
    test("SoftMax1", SoftMax(), x(6)); test("SoftMax3", SoftMax(), x(3, 2, 4)); test("SoftMax4", SoftMax(), x(2, 3, 2, 4))
    test("SoftMin3", SoftMin(), x(3, 2, 4)); test("SoftMin4", SoftMin(), x(2, 3, 2, 4))
    test("LogSoftMax1", LogSoftMax(), x(6)); test("Linear1", Linear(6, 2), x(6))
    test("PReLU4", PReLU(3), x(2, 3, 2, 2)); test("PReLU3", PReLU(3), x(3, 2, 2))
    test("SReLUzero", SReLU(Array(3, 2)), x(2, 3, 2), keep = true)
    test("SReLU4", SReLU(Array(3, 2, 2), Array(2, 3)), x(2, 3, 2, 2)); test("SReLU3", SReLU(Array(3, 2)), x(2, 3, 2))
    test("CMul4", CMul(Array(1, 3, 1, 1)), x(2, 3, 2, 2)); test("CMul3of4", CMul(Array(3, 1, 1)), x(2, 3, 2, 2))
    test("CMulPlane", CMul(Array(1, 1, 2, 2)), x(2, 3, 2, 2)); test("CMulAll", CMul(Array(3, 2, 2)), x(2, 3, 2, 2)); test("CMulOne", CMul(Array(1)), x(2, 3))
    test("CAdd4", CAdd(Array(1, 3, 1, 1)), x(2, 3, 2, 2)); test("CAdd3of4", CAdd(Array(3, 1, 1)), x(2, 3, 2, 2)); test("CAddAll", CAdd(Array(3, 2, 2)), x(2, 3, 2, 2))
    test("Scale4", Scale(Array(1, 3, 1, 1)), x(2, 3, 2, 2)); test("Add3", Add(6), x(2, 3, 2))
    test("NormalizeScale", NormalizeScale(2.0, scale = 20, size = Array(1, 3, 1, 1)), x(2, 3, 2, 2))
    test("Normalize4", Normalize(2.0), x(2, 3, 2, 2)); test("Normalize1D", Normalize(2.0), x(6))
    test("SpatialBatchNorm", SpatialBatchNormalization(3, 1e-3), x(2, 3, 2, 2)); test("SpatialBatchNorm3", SpatialBatchNormalization(3), x(3, 2, 2))
    test("SpatialBatchNormNHWC", SpatialBatchNormalization(3, 1e-3, dataFormat = DataFormat.NHWC), x(2, 2, 2, 3))
    test("BatchNorm1", BatchNormalization(4), x(4))
    test("BatchNormNotAffine", { val m = Sequential().add(BatchNormalization(4, affine = false)); m.training(); for (_ <- 1 to 3) m.forward(x(5, 4)); m }, x(2, 4))
    test("LRN", SpatialCrossMapLRN(5, 0.9, 0.75, 1.0), x(2, 7, 2, 2)); test("LRNk", SpatialCrossMapLRN(3, 0.5, 0.5, 2.0), x(2, 4, 2, 2))
    test("LRNnhwc", SpatialCrossMapLRN(3, 0.5, 0.5, 2.0, DataFormat.NHWC), x(2, 2, 2, 4)); test("WithinLRN", SpatialWithinChannelLRN(3, 0.8, 0.6), x(2, 2, 4, 5))
    test("SubtractiveNorm", SpatialSubtractiveNormalization(2), x(2, 2, 6, 6), keep = true); test("DivisiveNorm", SpatialDivisiveNormalization(2), x(2, 2, 6, 6), keep = true)
    test("SpatialDropout1D", SpatialDropout1D(0.2), x(2, 3, 4)); test("SpatialDropout2D", SpatialDropout2D(0.2), x(2, 3, 2, 2)); test("SpatialDropout3D", SpatialDropout3D(0.2), x(2, 3, 2, 2, 2))
    for ((name, m) <- Seq[(String, () => M)]("CAddTable" -> (() => CAddTable()), "CSubTable" -> (() => CSubTable()), "CMulTable" -> (() => CMulTable()),
      "CDivTable" -> (() => CDivTable()), "CMaxTable" -> (() => CMaxTable()), "CMinTable" -> (() => CMinTable()), "CAveTable" -> (() => CAveTable()),
      "DotProduct" -> (() => DotProduct()), "CosineDistance" -> (() => CosineDistance()), "PairwiseDistance" -> (() => PairwiseDistance(2)),
      "JoinTable" -> (() => JoinTable(2, 2)), "JoinTable1" -> (() => JoinTable(1, 1)), "JoinTableNeg" -> (() => JoinTable(-1, -1)), "CrossProduct" -> (() => CrossProduct()),
      "Pack" -> (() => Pack(2)), "Bilinear" -> (() => Bilinear(4, 4, 3))))
      test(name, m(), T(x(2, 4), x(2, 4)))
    test("CAddTable3", CAddTable(), T(x(2, 4), x(2, 4), x(2, 4))); test("CAddTableWide", CAddTable(), T(x(2, 3, 4), x(2, 1, 4)))
    test("CMulTableWide", CMulTable(), T(x(2, 3, 2, 2), x(2, 3, 1, 1))); test("CrossProduct3", CrossProduct(), T(x(2, 4), x(2, 4), x(2, 4)))
    test("CMulTableScalar", CMulTable(), T(x(2, 3), x(2, 1)))
    test("MM", MM(), T(x(2, 3, 4), x(2, 4, 5))); test("MMtrans", MM(true, false), T(x(2, 4, 3), x(2, 4, 5))); test("MMtransB", MM(false, true), T(x(2, 3, 4), x(2, 5, 4)))
    test("MV", MV(), T(x(2, 3, 4), x(2, 4))); test("MVtrans", MV(true), T(x(2, 4, 3), x(2, 4)))
    test("MixtureTable", Sequential().add(ParallelTable().add(Identity()).add(SplitTable(2))).add(MixtureTable()), T(x(2, 3), x(2, 3, 4))); test("MixtureTableTensor", MixtureTable(), T(x(2, 3), x(2, 3, 4)))
    test("Mean", Mean(2), x(2, 3, 4)); test("MeanKeep", Mean(2, squeeze = false), x(2, 3, 4)); test("MeanNeg", Mean(-1), x(2, 3, 4)); test("MeanDims", Mean(1, 2), x(2, 3, 4))
    test("Sum", Sum(2), x(2, 3, 4)); test("SumAverage", Sum(3, sizeAverage = true), x(2, 3, 4)); test("SumKeep", Sum(-1, squeeze = false), x(2, 3, 4)); test("SumDims", Sum(1, 2), x(2, 3, 4))
    test("Max", Max(2), x(2, 3, 4)); test("MaxNeg", Max(-1), x(2, 3, 4)); test("MaxDims", Max(1, 2), x(2, 3, 4)); test("Min", Min(2), x(2, 3, 4)); test("MinDims", Min(2, 2), x(2, 3, 4))
  }
}

object Layers {
  def run(): Unit = {
    val image = () => x(2, 4, 7, 6)
    test("Conv", SpatialConvolution(4, 3, 3, 2), image()); test("ConvPad", SpatialConvolution(4, 3, 3, 3, 2, 1, 1, 2), image())
    test("ConvGroup", SpatialConvolution(4, 6, 3, 3, 1, 1, 1, 1, 2), image()); test("ConvSame", SpatialConvolution(4, 3, 4, 3, 2, 2, -1, -1), image())
    test("ConvSameEven", SpatialConvolution(4, 3, 2, 2, 1, 1, -1, -1), image())
    test("ConvNoBias", SpatialConvolution(4, 3, 3, 3, withBias = false), image()); test("Conv3D", SpatialConvolution(4, 3, 3, 3), x(4, 5, 5))
    test("ConvNHWC", SpatialConvolution(4, 3, 3, 2, 2, 1, 1, 0, format = DataFormat.NHWC), x(2, 7, 6, 4)); test("ConvNHWCsame", SpatialConvolution(4, 3, 3, 3, 2, 2, -1, -1, format = DataFormat.NHWC), x(2, 7, 6, 4))
    test("ConvShare", SpatialShareConvolution(4, 3, 3, 3, 1, 1, 1, 1), image())
    test("Dilated", SpatialDilatedConvolution(4, 3, 3, 2, 1, 1, 1, 1, 2, 2), image()); test("DilatedWide", SpatialDilatedConvolution(4, 3, 2, 3, 2, 1, 0, 2, 3, 1), image())
    test("Full", SpatialFullConvolution(4, 3, 3, 2, 2, 2, 1, 0, 1, 1), image()); test("FullGroup", SpatialFullConvolution(4, 6, 3, 3, 2, 1, 0, 1, 0, 0, 2), image())
    test("FullNoBias", SpatialFullConvolution(4, 3, 4, 4, 2, 2, 1, 1, noBias = true), image())
    test("FullTable", SpatialFullConvolution(4, 3, 3, 3, 2, 2), T(x(2, 4, 3, 3), x(2, 4, 8, 7)))
    test("Separable", SpatialSeparableConvolution(4, 5, 2, 3, 3, 1, 1, 1, 1), image()); test("SeparableNHWC", SpatialSeparableConvolution(4, 5, 2, 3, 2, 2, 1, 0, 0, dataFormat = DataFormat.NHWC), x(2, 7, 6, 4))
    test("SeparableSame", SpatialSeparableConvolution(4, 5, 1, 3, 3, 2, 2, -1, -1), image())
    test("ConvMap", SpatialConvolutionMap(SpatialConvolutionMap.oneToOne[Float](4), 3, 3), image())
    test("Local2D", LocallyConnected2D(4, 6, 7, 3, 3, 2, 1, 1), image()); test("Local2Dpad", LocallyConnected2D(4, 6, 7, 3, 3, 3, 2, 2, 1, 1), image())
    test("Local2DNHWC", LocallyConnected2D(4, 6, 7, 3, 3, 2, 1, 1, format = DataFormat.NHWC), x(2, 7, 6, 4))
    test("SeparableWide", SpatialSeparableConvolution(2, 3, 2, 2, 3), x(2, 2, 5, 5)); test("SeparableNHWCsquare", SpatialSeparableConvolution(4, 5, 2, 3, 3, 2, 1, 1, 1, dataFormat = DataFormat.NHWC), x(2, 7, 6, 4))
    test("Local1D", LocallyConnected1D(7, 4, 3, 3, 2), x(2, 7, 4)); test("Temporal", TemporalConvolution(4, 3, 3, 1), x(2, 7, 4)); test("TemporalStride", TemporalConvolution(4, 3, 2, 2), x(2, 7, 4))
    test("Temporal2D", TemporalConvolution(4, 3, 3, 1), x(7, 4)); test("TemporalMax", TemporalMaxPooling(2, 2), x(2, 7, 4)); test("TemporalMax3", TemporalMaxPooling(3), x(2, 7, 4))
    val volume = () => x(2, 2, 5, 6, 4)
    test("VolConv", VolumetricConvolution(2, 3, 2, 3, 2), volume()); test("VolConvPad", VolumetricConvolution(2, 3, 2, 3, 2, 2, 1, 2, 1, 1, 0), volume())
    test("VolConvSame", VolumetricConvolution(2, 3, 3, 2, 2, 2, 2, 1, -1, -1, -1), volume()); test("VolConv4", VolumetricConvolution(2, 3, 2, 2, 2), x(2, 4, 4, 4)); test("VolConvNoBias", VolumetricConvolution(2, 3, 2, 2, 2, withBias = false), volume())
    test("VolFull", VolumetricFullConvolution(2, 3, 2, 3, 2, 2, 1, 2, 0, 1, 0, 1, 0, 1), volume())
    test("VolFullPlain", VolumetricFullConvolution(2, 3, 2, 2, 2), volume()); test("VolFullStride", VolumetricFullConvolution(2, 3, 2, 2, 2, 2, 2, 2), volume()); test("VolFullPad", VolumetricFullConvolution(2, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1), volume()); test("VolFullKernel", VolumetricFullConvolution(2, 3, 1, 2, 3), volume()); test("VolFullOne", VolumetricFullConvolution(1, 1, 2, 2, 2, noBias = true), x(1, 1, 2, 2, 2)); test("VolFullAdj", VolumetricFullConvolution(2, 3, 2, 2, 2, 2, 2, 2, 0, 0, 0, 1, 1, 1), volume())
    test("VolMax", VolumetricMaxPooling(2, 2, 3, 2, 2, 1), volume()); test("VolMaxPad", VolumetricMaxPooling(3, 3, 3, 2, 2, 2, 1, 1, 1), volume()); test("VolMaxCeil", VolumetricMaxPooling(2, 2, 2, 2, 2, 2).ceil(), x(2, 2, 5, 5, 4))
    test("VolAvg", VolumetricAveragePooling(2, 2, 3, 2, 2, 1), volume()); test("VolAvgPad", VolumetricAveragePooling(3, 3, 3, 2, 2, 2, 1, 1, 1), volume()); test("VolAvgNoPad", VolumetricAveragePooling(3, 3, 3, 2, 2, 2, 1, 1, 1, false), volume())
    test("VolAvgCeil", VolumetricAveragePooling(2, 2, 2, 2, 2, 2, ceilMode = true), x(2, 2, 5, 5, 4))
    for (h <- Seq(6, 7); (kernel, stride, pad) <- Seq((2, 2, 0), (3, 2, 0), (3, 2, 1), (2, 3, 1), (2, 2, 1)); ceil <- Seq(false, true)) {
      test(s"Max-$h-$kernel-$stride-$pad-$ceil", { val p = SpatialMaxPooling(kernel, kernel, stride, stride, pad, pad); if (ceil) p.ceil() else p.floor() }, x(1, 2, h, 7))
      for (count <- Seq(true, false))
        test(s"Avg-$h-$kernel-$stride-$pad-$ceil-$count", SpatialAveragePooling(kernel, kernel, stride, stride, pad, pad, ceilMode = ceil, countIncludePad = count), x(1, 2, h, 7))
    }
    test("MaxSame", SpatialMaxPooling(3, 2, 2, 2, -1, -1), x(2, 2, 6, 7)); test("MaxNHWC", SpatialMaxPooling(3, 2, 2, 1, 1, 1, DataFormat.NHWC), x(2, 6, 7, 2)); test("Max3", SpatialMaxPooling(2, 2, 2, 2), x(2, 6, 7))
    test("AvgSame", SpatialAveragePooling(3, 2, 2, 2, -1, -1), x(2, 2, 6, 7)); test("AvgSameNoPad", SpatialAveragePooling(3, 2, 2, 2, -1, -1, countIncludePad = false), x(2, 2, 6, 7)); test("AvgNHWC", SpatialAveragePooling(3, 2, 2, 1, 1, 1, format = DataFormat.NHWC), x(2, 6, 7, 2))
    test("AvgGlobal", SpatialAveragePooling(1, 1, globalPooling = true), x(2, 2, 6, 7)); test("AvgSum", SpatialAveragePooling(3, 2, 2, 2, 1, 1, divide = false), x(2, 2, 6, 7))
    test("AvgSumNoPad", SpatialAveragePooling(3, 2, 2, 2, 1, 1, countIncludePad = false, divide = false), x(2, 2, 6, 7)); test("Avg3", SpatialAveragePooling(2, 2, 2, 2), x(2, 6, 7))
    test("Up1", UpSampling1D(3), x(2, 3, 2)); test("Up2", UpSampling2D(Array(2, 3)), x(2, 3, 2, 3)); test("Up2NHWC", UpSampling2D(Array(2, 3), DataFormat.NHWC), x(2, 2, 3, 3)); test("Up3", UpSampling3D(Array(2, 1, 3)), x(2, 2, 2, 2, 3))
    test("Bilinear2x", ResizeBilinear(6, 8), x(2, 2, 3, 4)); test("BilinearAlign", ResizeBilinear(7, 5, true), x(2, 2, 3, 4)); test("BilinearDown", ResizeBilinear(2, 3), x(2, 2, 5, 6)); test("BilinearNHWC", ResizeBilinear(6, 8, dataFormat = DataFormat.NHWC), x(2, 3, 4, 2))
    test("ZeroPad", SpatialZeroPadding(1, 2, 0, 3), x(2, 2, 3, 4)); test("ZeroPadCrop", SpatialZeroPadding(-1, 2, 1, -1), x(2, 2, 3, 4)); test("ZeroPad3", SpatialZeroPadding(1, 1, 1, 1), x(2, 3, 4))
    test("Crop2", Cropping2D(Array(1, 0), Array(1, 2)), x(2, 2, 5, 6)); test("Crop2NHWC", Cropping2D(Array(1, 0), Array(1, 2), DataFormat.NHWC), x(2, 5, 6, 2)); test("Crop3", Cropping3D(Array(1, 1), Array(0, 2), Array(1, 0)), x(2, 2, 4, 5, 4))
    test("Lookup", LookupTable(7, 3), Tensor[Float](Array(1f, 7f, 3f, 2f, 2f, 5f), Array(2, 3))); test("Lookup1", LookupTable(7, 3), list(1, 4, 7))
    test("LookupNorm", LookupTable(7, 3, maxNorm = 0.5), Tensor[Float](Array(1f, 7f, 3f, 2f, 2f, 5f), Array(2, 3))); test("LookupPad", LookupTable(7, 3, paddingValue = 2), Tensor[Float](Array(1f, 7f, 3f, 2f, 2f, 5f), Array(2, 3)))
    test("LookupMask", LookupTable(7, 3, maskZero = true), Tensor[Float](Array(1f, 6f, 3f, 2f, 7f, 5f), Array(2, 3)))
    test("PriorBox", PriorBox[Float](Array(30f), Array(60f), Array(2f), variances = Array(0.1f, 0.1f, 0.2f, 0.2f), offset = 0.5f, imgH = 60, imgW = 50, stepH = 0, stepW = 0), x(1, 2, 3, 4))
    test("PriorBoxClip", PriorBox[Float](Array(30f), Array(60f), Array(2f, 3f), isFlip = true, isClip = true, variances = Array(0.1f, 0.1f, 0.2f, 0.2f), offset = 0.5f, imgSize = 60, step = 16), x(1, 2, 3, 4))
    test("RoiPooling", RoiPooling(2, 2, 0.5f), T(x(1, 2, 6, 6), Tensor[Float](Array(0f, 0f, 0f, 7f, 7f, 0f, 2f, 2f, 9f, 9f), Array(2, 5))))
    val half = (m: M) => { randomize(m); m.evaluate(); m.asInstanceOf[Module[Float]].quantize() }
    test("QLinear", half(Sequential().add(Linear(9, 4))), x(2, 9), keep = true); test("QLinearBig", half(Sequential().add(Linear(37, 16))), x(3, 37), keep = true)
    test("QConv", half(Sequential().add(SpatialConvolution(4, 3, 3, 3, 1, 1, 1, 1))), x(2, 4, 6, 6), keep = true); test("QConvGroup", half(Sequential().add(SpatialConvolution(4, 6, 3, 2, 2, 1, 0, 0, 2))), x(2, 4, 6, 6), keep = true)
    test("QDilated", half(Sequential().add(SpatialDilatedConvolution(4, 3, 3, 3, 1, 1, 1, 1, 2, 2))), x(2, 4, 6, 6), keep = true); test("QConvOne", half(Sequential().add(SpatialConvolution(8, 5, 1, 1))), x(2, 8, 3, 3), keep = true)
  }
}

object Shapes {
  def run(): Unit = {
    test("Reshape", Reshape(Array(3, 4)), x(2, 12)); test("Reshape1", Reshape(Array(3, 4)), x(1, 12)); test("ReshapeBatch", Reshape(Array(3, 4), Some(true)), x(2, 12)); test("ReshapeWhole", Reshape(Array(4, 6), Some(false)), x(2, 12))
    test("ReshapeNone", Reshape(Array(24)), x(2, 12)); test("View", View(3, 4), x(2, 12)); test("ViewAll", View(24), x(2, 12)); test("ViewDims", View(12).setNumInputDims(2), x(2, 3, 4))
    test("ViewFlat", View(12), x(2, 3, 4)); test("InferReshape", InferReshape(Array(-1, 4)), x(2, 3, 4)); test("InferReshapeCopy", InferReshape(Array(0, -1)), x(2, 3, 4)); test("InferReshapeBatch", InferReshape(Array(4, -1), true), x(2, 3, 4)); test("InferReshapeBatch0", InferReshape(Array(3, -1, 2), true), x(2, 3, 4))
    test("Transpose", Transpose(Array((2, 3))), x(2, 3, 4)); test("Transpose2", Transpose(Array((2, 4), (3, 4))), x(2, 3, 4, 5)); test("Narrow", Narrow(2, 2, 2), x(2, 4, 3)); test("NarrowNeg", Narrow(-1, 2, -1), x(2, 4, 5)); test("NarrowNeg2", Narrow(2, 1, -2), x(2, 4, 5))
    test("Select", Select(2, 3), x(2, 4, 3)); test("SelectNeg", Select(-1, -1), x(2, 4, 3)); test("Select2", Select(2, -2), x(2, 4)); test("Squeeze", Squeeze(2), x(2, 1, 3)); test("SqueezeAll", Squeeze[Float](null, false), x(2, 1, 3, 1)); test("SqueezeBatch", Squeeze(1, 2), x(2, 1, 3)); test("SqueezeTwo", Squeeze(Array(2, 4), false), x(2, 1, 3, 1))
    test("SqueezeNot", Squeeze(2), x(2, 3)); test("Unsqueeze", Unsqueeze(2), x(2, 3)); test("UnsqueezeEnd", Unsqueeze(3), x(2, 3))
    test("Padding", Padding(1, 2, 2, 0.5), x(2, 3, 4)); test("PaddingNeg", Padding(2, -2, 3, 1.0), x(2, 3, 4)); test("PaddingIndex", Padding(2, 2, 3, 1.0, 2), x(2, 3, 4)); test("PaddingIndexNeg", Padding(2, -2, 3, 1.0, 2), x(2, 3, 4))
    test("SplitTable", Sequential().add(SplitTable(2)).add(CAddTable()), x(2, 3, 4)); test("SplitTableDims", SplitTable(1, 2), x(2, 3, 4)); test("SplitTableNeg", SplitTable(-1), x(2, 3, 4)); test("SplitTableKeep", SplitTable(2, keepDim = true), x(2, 3, 4))
    test("BifurcateSplit", BifurcateSplitTable(2), x(2, 4)); test("Replicate", Replicate(3, 2), x(2, 4)); test("Replicate1", Replicate(3, 1, 1), x(2, 4)); test("Reverse", Reverse(2), x(2, 3, 4)); test("Tile", Tile(2, 3), x(2, 3)); test("ExpandSize", ExpandSize(Array(-1, 3, 4)), x(2, 1, 4))
    test("Bottle", Bottle(Linear(4, 3).asInstanceOf[Module[Float]], 2, 2), x(2, 3, 4)); test("Masking", Masking(0.0), Tensor[Float](Array(1f, 2f, 0f, 0f, 0f, 3f, 0f, 0f, 1f, 1f, 1f, 0f), Array(2, 3, 2)))
    test("SelectTable", SelectTable(2), T(x(2, 3), x(2, 4))); test("NarrowTable", NarrowTable(2, 2), T(x(2, 3), x(2, 4), x(2, 2))); test("NarrowTableNeg", NarrowTable(1, -1), T(x(2, 3), x(2, 4), x(2, 2))); test("FlattenTable", FlattenTable(), T(x(2, 3), T(x(2, 4), x(2, 2))))
    test("Index", Index(2), T(x(2, 4), list(3, 1, 1))); test("SelectTableNeg", SelectTable(-1), T(x(2, 3), x(2, 4)))
    test("Concat", Concat(2).add(Linear(4, 3)).add(Linear(4, 2)), x(2, 4)); test("ConcatTable", ConcatTable().add(Linear(4, 3)).add(Identity()), x(2, 4)); test("ParallelTable", ParallelTable().add(Linear(4, 3)).add(Tanh()), T(x(2, 4), x(2, 2))); test("MapTable", MapTable(Linear(4, 3).asInstanceOf[Module[Float]]), T(x(2, 4), x(2, 4)))
    test("Concat3", Concat(3).add(SpatialConvolution(2, 2, 1, 1)).add(Identity()), x(2, 2, 3, 3))
  }
}

object Nets {
  def run(): Unit = {
    val lenet = () => Sequential().add(Reshape(Array(1, 12, 12))).add(SpatialConvolution(1, 2, 5, 5).setName("conv1")).add(Tanh()).add(SpatialMaxPooling(2, 2, 2, 2)).add(Reshape(Array(32))).add(Linear(32, 4).setName("fc")).add(LogSoftMax())
    test("LeNet", lenet(), x(2, 12, 12)); test("SeparateWeights", lenet(), x(2, 12, 12), separate = true)
    test("Graph", graph { val in = Input(); val a = Linear(4, 3).inputs(in); val b = ReLU().inputs(a); val c = CAddTable().inputs(a, b); val d = JoinTable(1, 1).inputs(b, c); (Array(in), Array(d, c)) }, x(2, 4))
    test("GraphInputs", graph { val (p, q) = (Input(), Input()); val a = Linear(4, 3).inputs(p); val b = Linear(2, 3).inputs(q); (Array(p, q), Array(CSubTable().inputs(a, b))) }, T(x(2, 4), x(2, 2)))
    test("GraphEdges", graph { val in = Input(); val s = SplitTable(2).inputs(in); val c = CSubTable().inputs((s, 3), (Tanh().inputs((s, 1)), 1)); (Array(in), Array(c)) }, x(2, 3))
    test("NestedSequential", Sequential().add(ConcatTable().add(Sequential().add(Linear(4, 3)).add(ReLU())).add(Linear(4, 3))).add(CMulTable()), x(2, 4))
    for ((name, cell) <- Seq[(String, () => Cell[Float])]("LSTM" -> (() => LSTM(4, 3)), "LSTMact" -> (() => LSTM(4, 3, activation = ReLU[Float](), innerActivation = HardSigmoid[Float]())), "LSTMdrop" -> (() => LSTM(4, 3, 0.2)),
      "GRU" -> (() => GRU(4, 3)), "GRUdrop" -> (() => GRU(4, 3, 0.2)), "Peephole" -> (() => LSTMPeephole(4, 3)), "PeepholeDrop" -> (() => LSTMPeephole(4, 3, 0.1)), "RnnCell" -> (() => RnnCell(4, 3, Tanh[Float]())), "RnnNoBias" -> (() => RnnCell(4, 3, ReLU[Float](), isInputWithBias = false, isHiddenWithBias = false)))) {
      test(name, Recurrent().add(cell()), x(2, 5, 4))
      if (Set("LSTM", "GRUdrop", "RnnCell")(name)) test(s"Bi$name", BiRecurrent().add(cell()), x(2, 5, 4))
    }
    test("BiJoin", BiRecurrent(JoinTable(3, 0).asInstanceOf[AbstractModule[Table, Tensor[Float], Float]]).add(LSTM(4, 3)), x(2, 5, 4)); test("BiSplit", BiRecurrent(isSplitInput = true).add(GRU(2, 3)), x(2, 5, 4))
    test("RecurrentNorm", Recurrent(BatchNormParams[Float]()).add(LSTM(4, 3)), x(2, 5, 4)); test("RecurrentLast", Sequential().add(Recurrent().add(LSTM(4, 3))).add(Select(2, -1)).add(Linear(3, 2)), x(2, 5, 4))
    test("MaskZero", Recurrent(maskZero = true).add(LSTM(4, 3)), x(2, 5, 4)); test("TimeDistributed", TimeDistributed(Linear(4, 3)), x(2, 5, 4)); test("TimeDistributedConv", TimeDistributed(SpatialConvolution(2, 3, 3, 3)), x(2, 3, 2, 5, 5))
    test("MultiRNN", RecurrentDecoder(3).add(MultiRNNCell(Array(LSTM(4, 4), LSTM(4, 4)).asInstanceOf[Array[Cell[Float]]])), x(2, 4)); test("Decoder", RecurrentDecoder(3).add(LSTM(4, 4)), x(2, 4))
    test("ConvLSTM", Recurrent().add(ConvLSTMPeephole(2, 3, 3, 3, 1)), x(2, 3, 2, 4, 4)); test("ConvLSTMno", Recurrent().add(ConvLSTMPeephole(2, 3, 3, 3, 1, withPeephole = false)), x(2, 3, 2, 4, 4))
    def kt(name: String, layer: => M, shape: Seq[Int], input: => Tensor[Float] = null): Unit = test("keras-" + name, wrapped(layer, Shape(shape: _*)), if (input == null) x(2 +: shape: _*) else input)
    kt("Dense", k.Dense[Float](3, activation = "relu"), Seq(4)); kt("DenseTime", k.Dense[Float](3), Seq(5, 4)); kt("DenseNoBias", k.Dense[Float](3, bias = false, activation = "softmax"), Seq(4)); kt("Conv2D", k.Convolution2D[Float](3, 3, 3, activation = "tanh"), Seq(2, 6, 6)); kt("Conv2DSame", k.Convolution2D[Float](3, 3, 3, borderMode = "same", dimOrdering = "tf"), Seq(6, 6, 2))
    kt("Conv1D", k.Convolution1D[Float](3, 2), Seq(6, 4)); kt("Conv1DSame", k.Convolution1D[Float](3, 3, borderMode = "same", subsampleLength = 2), Seq(6, 4)); kt("Conv3D", k.Convolution3D[Float](2, 2, 2, 2), Seq(2, 3, 4, 4)); kt("Atrous2D", k.AtrousConvolution2D[Float](2, 3, 3, atrousRate = (2, 2)), Seq(2, 7, 7)); kt("Atrous1D", k.AtrousConvolution1D[Float](2, 3, atrousRate = 2), Seq(7, 2)); kt("Deconv", k.Deconvolution2D[Float](2, 3, 3, subsample = (2, 2)), Seq(2, 4, 4)); kt("Separable", k.SeparableConvolution2D[Float](3, 2, 2), Seq(2, 5, 5))
    kt("MaxPool2D", k.MaxPooling2D[Float](), Seq(2, 5, 6)); kt("MaxPool2DSame", k.MaxPooling2D[Float](borderMode = "same"), Seq(2, 5, 6)); kt("AvgPool2D", k.AveragePooling2D[Float](), Seq(2, 5, 6)); kt("AvgPool2DSame", k.AveragePooling2D[Float](borderMode = "same"), Seq(2, 5, 5)); kt("MaxPool1D", k.MaxPooling1D[Float](), Seq(5, 3)); kt("AvgPool1D", k.AveragePooling1D[Float](), Seq(5, 3)); kt("MaxPool3D", k.MaxPooling3D[Float](), Seq(2, 4, 4, 4)); kt("AvgPool3D", k.AveragePooling3D[Float](), Seq(2, 4, 4, 4))
    kt("GMax2D", k.GlobalMaxPooling2D[Float](), Seq(2, 4, 5)); kt("GAvg2D", k.GlobalAveragePooling2D[Float](), Seq(2, 4, 5)); kt("GMax1D", k.GlobalMaxPooling1D[Float](), Seq(5, 3)); kt("GAvg1D", k.GlobalAveragePooling1D[Float](), Seq(5, 3)); kt("GMax3D", k.GlobalMaxPooling3D[Float](), Seq(2, 3, 3, 3)); kt("GAvg3D", k.GlobalAveragePooling3D[Float](), Seq(2, 3, 3, 3))
    kt("BatchNorm", k.BatchNormalization[Float](), Seq(3, 4, 4)); kt("Flatten", k.Flatten[Float](), Seq(3, 4, 2)); kt("Reshape", k.Reshape[Float](Array(4, 6)), Seq(3, 8)); kt("Permute", k.Permute[Float](Array(3, 1, 2)), Seq(3, 4, 2)); kt("Repeat", k.RepeatVector[Float](3), Seq(4)); kt("Dropout", k.Dropout[Float](0.3), Seq(4)); kt("Noise", k.GaussianNoise[Float](0.3), Seq(4)); kt("GDropout", k.GaussianDropout[Float](0.3), Seq(4)); kt("SDropout", k.SpatialDropout2D[Float](0.3), Seq(2, 3, 3))
    kt("LSTM", k.LSTM[Float](3), Seq(5, 4)); kt("LSTMseq", k.LSTM[Float](3, returnSequences = true, goBackwards = true), Seq(5, 4)); kt("GRU", k.GRU[Float](3), Seq(5, 4)); kt("SimpleRNN", k.SimpleRNN[Float](3), Seq(5, 4)); kt("BiLSTM", k.Bidirectional[Float](k.LSTM[Float](3, returnSequences = true), "concat"), Seq(5, 4)); kt("TimeDense", k.TimeDistributed[Float](k.Dense[Float](3).asInstanceOf[k.KerasLayer[Tensor[Float], Tensor[Float], Float]]), Seq(5, 4)); kt("ConvLSTM", k.ConvLSTM2D[Float](2, 3), Seq(3, 2, 4, 4))
    kt("Embedding", k.Embedding[Float](6, 3), Seq(4), Tensor[Float](Array(0f, 5f, 2f, 1f, 3f, 3f, 0f, 4f), Array(2, 4))); kt("ELU", k.ELU[Float](0.4), Seq(4)); kt("Leaky", k.LeakyReLU[Float](0.2), Seq(4)); kt("Thresholded", k.ThresholdedReLU[Float](0.4), Seq(4)); kt("SReLU", k.SReLU[Float](), Seq(4)); kt("Masking", k.Masking[Float](0.0), Seq(3, 2)); kt("Highway", k.Highway[Float](activation = "tanh"), Seq(4)); kt("MaxoutDense", k.MaxoutDense[Float](3, 2), Seq(4)); for (a <- Seq("tanh", "relu", "sigmoid", "softmax", "softplus", "softsign", "hard_sigmoid")) kt(s"Activation-$a", k.Activation[Float](a), Seq(4))
    kt("Softmax3", k.Activation[Float]("softmax"), Seq(3, 4)); kt("Up1D", k.UpSampling1D[Float](2), Seq(3, 2)); kt("Up2D", k.UpSampling2D[Float]((2, 2)), Seq(2, 3, 3)); kt("Up3D", k.UpSampling3D[Float]((2, 2, 2)), Seq(2, 2, 2, 2)); kt("Pad1D", k.ZeroPadding1D[Float](2), Seq(3, 2)); kt("Pad2D", k.ZeroPadding2D[Float]((1, 2)), Seq(2, 3, 3)); kt("Pad3D", k.ZeroPadding3D[Float]((1, 2, 1)), Seq(2, 3, 3, 3)); kt("Crop1D", k.Cropping1D[Float]((1, 1)), Seq(5, 2)); kt("Crop2D", k.Cropping2D[Float](((1, 1), (0, 2))), Seq(2, 5, 5)); kt("Crop3D", k.Cropping3D[Float](((1, 1), (0, 1), (1, 0))), Seq(2, 4, 4, 4)); kt("Local1D", k.LocallyConnected1D[Float](3, 2), Seq(5, 4)); kt("Local2D", k.LocallyConnected2D[Float](3, 2, 2), Seq(2, 5, 5))
    for (mode <- Seq("sum", "mul", "max", "ave", "concat", "dot", "cos")) test(s"keras-Merge-$mode", { val (a, b) = (k.Input[Float](inputShape = Shape(4)), k.Input[Float](inputShape = Shape(4))); val da = k.Dense[Float](3).inputs(a); val db = k.Dense[Float](3).inputs(b); k.Model[Float](Array(a, b), k.Merge.merge[Float](List(da, db), mode)) }, T(x(2, 4), x(2, 4)))
    test("keras-Model", { val a = k.Input[Float](inputShape = Shape(4)); val d = k.Dense[Float](3, activation = "relu").inputs(a); val e = k.Dense[Float](2).inputs(d); k.Model[Float](a, e) }, x(2, 4))
  }
}
