"""A plan on Spark: every node and expression as PySpark DataFrame code that means the same.

    df.collect(engine="spark")          one plan
    fabric.connect("spark://host:7077") a session whose frames run there
    fabric run --engine spark FILE      a whole program

Without PySpark, or with one that is too old, importing this package raises an `ExternalError` that
says what to install.
"""

from fabric.clients.spark.session import check_pyspark

check_pyspark()  # before a module of this package imports it
