# What one finds in the wild: a launcher that greets on the channel of the messages, and a log on stderr.
echo "Everything 1.0, ready to serve"
echo "INFO everything: starting" >&2
exec python everything.py
