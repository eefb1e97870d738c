#!/usr/bin/env python3
"""Profiles of TensorFlow programs whose step numbers follow loops of its executor and data sets.

usage: gen_tf_groups.py OUTDIR      needs: pip install tensorflow-cpu

Like gen_tf_bfc.py, it makes the CPU's BFC allocator report events. No program marks its steps.
"""
import glob, os, shutil, sys, tempfile

os.environ.update(TF_CPU_ALLOCATOR_USE_BFC="1", TF_CPU_BFC_MEM_LIMIT_IN_MB="256", TF_ENABLE_ONEDNN_OPTS="0",
                  TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import tensorflow as tf  # noqa: E402

tf.keras.utils.set_random_seed(1)


def profile(name, program):
    program()  # trace and compile first
    logs = tempfile.mkdtemp()
    tf.profiler.experimental.start(logs, options=tf.profiler.experimental.ProfilerOptions(python_tracer_level=0))
    program()
    tf.profiler.experimental.stop()
    shutil.copy(glob.glob(logs + "/plugins/profile/*/*.xplane.pb")[0], os.path.join(sys.argv[1], name + ".xplane.pb"))


model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
x, y = tf.random.uniform([64, 8]), tf.random.uniform([64, 1])
profile("tf_fit", lambda: model.fit(x, y, batch_size=16, verbose=0))
profile("tf_predict", lambda: model.predict(x, batch_size=16, verbose=0))


@tf.function
def loop(n):
    s = tf.zeros([64, 64])
    for _ in tf.range(n):
        s = tf.matmul(s + 1.0, tf.ones([64, 64]))
    return s


profile("tf_while", lambda: [loop(tf.constant(5)) for _ in range(3)])


def session():
    with tf.Graph().as_default():
        last = tf.compat.v1.while_loop(lambda i, s: i < 6, lambda i, s: (i + 1, tf.matmul(s, s) * 0.01), [tf.constant(0), tf.ones([64, 64])])
        with tf.compat.v1.Session() as s:
            for _ in range(3):
                s.run(last)


profile("tf_session", session)
